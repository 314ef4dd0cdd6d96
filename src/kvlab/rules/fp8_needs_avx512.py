"""An fp8 cache needs AVX-512 or AMX on a CPU.

Symptom: vLLM on a CPU: "FP8 KV cache on CPU requires x86 with AVX-512 or AMX".

Cause: the CPU attention kernels convert fp8 with instructions that this processor lacks.

Do:
- leave --kv-cache-dtype at auto on this machine
- run on a processor with AVX-512: grep avx512 /proc/cpuinfo

Source: https://docs.vllm.ai/en/latest/getting_started/installation/cpu/
"""

from __future__ import annotations

from kvlab.core.rule import Rule

RULE = Rule(cost="setting")
