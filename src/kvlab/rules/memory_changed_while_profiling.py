"""Memory of the GPU was freed while the engine measured it.

Symptom: vLLM: "Error in memory profiling. Initial free memory X GiB, current free memory Y GiB".

Cause: vLLM takes the difference of free memory before and after a trial run for its own use. Another process that
ended meanwhile makes the difference wrong, so it stops.

Do:
- start again now that the other process has gone
- start engines of one GPU one after the other
- reserve the pool by size and skip the measurement: --kv-cache-memory-bytes

Source: https://github.com/vllm-project/vllm/issues/56830
"""

from __future__ import annotations

import re

from kvlab.core.rule import Rule, Sign

RULE = Rule(
    cost="setting",
    signs=(Sign(pattern=re.compile(r"Error in memory profiling\. Initial free memory"), engines=("vllm",)),),
)
