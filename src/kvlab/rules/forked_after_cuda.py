"""CUDA was used before the workers were forked.

Symptom: "Cannot re-initialize CUDA in forked subprocess", "An attempt has been made to start a new process before the
current process has finished its bootstrapping phase".

Cause: the program that starts the engine has touched the GPU, or is not protected by "if __name__ == '__main__'".

Do:
- VLLM_WORKER_MULTIPROC_METHOD=spawn
- put the code that starts the engine under: if __name__ == "__main__":
- touch no GPU before it: no torch.cuda call at import

Source: https://docs.vllm.ai/en/latest/usage/troubleshooting/
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(
                r"Cannot re-initialize CUDA in forked subprocess"
                r"|attempt has been made to start a new process before the\s*(?:current process)?"
            )
        ),
    ),
)
