"""The GPUs have different amounts of free memory.

Symptom: SGLang: "The memory capacity is unbalanced. Some GPUs may be occupied by other processes."

Cause: every rank makes the same pool, so the fullest GPU sets the size, and here it has far less free than the
others.

Do:
- nvidia-smi: end what holds that GPU, or choose others with CUDA_VISIBLE_DEVICES
- put other services on GPUs of their own
- where it is meant: SGL_DISABLE_TP_MEMORY_INBALANCE_CHECK=1, and plan with the smallest

Source: https://github.com/sgl-project/sglang/blob/main/python/sglang/srt/model_executor/model_runner.py
"""

from __future__ import annotations

from kvlab.core.rule import Rule

RULE = Rule(cost="setting")
