"""The machine's own memory ran out and the engine was killed.

Symptom: "OOMKilled", "Out of memory: Killed process", exit code 137, or a worker that died with SIGKILL (exit code
-9).

Cause: the kernel or the container's limit ended the process: weights are read through host memory, offload tiers and
prompt caches live in it, and a CPU engine keeps everything there.

Do:
- raise the container's memory limit above the size of the weights plus the offload tiers
- lower the tiers: llama.cpp --cache-ram, vLLM --kv-offloading-size (each rank has its part), SGLang --hicache-size
- on a CPU engine lower the cache: llama.cpp -c, vLLM VLLM_CPU_KVCACHE_SPACE

Source: https://kubernetes.io/docs/tasks/configure-pod-container/assign-memory-resource/
https://github.com/deepseek-ai/DeepSeek-VL2/issues/90 https://github.com/vllm-project/vllm/issues/28923
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    certainty="likely",
    signs=(
        Sign(
            pattern=re.compile(
                r"\bOOMKilled\b|Out of memory: Killed process|oom-kill:constraint|died, exit code: -9\b"
                r"|[Ee]xit(?:ed with)? code:? 137\b|signal: killed\b|was killed by signal: Killed"
                r"|Scheduler or DP controller \d+ terminated with -9\b|exit code of the process is -9\b"
            )
        ),
    ),
)
