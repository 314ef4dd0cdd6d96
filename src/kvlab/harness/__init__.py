"""lm-evaluation-harness, run as a program of its own against a server, and the files that it leaves.

https://github.com/EleutherAI/lm-evaluation-harness
"""
