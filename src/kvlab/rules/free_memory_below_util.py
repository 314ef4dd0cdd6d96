"""Less memory is free than the engine is told to take.

Symptom: vLLM: "Free memory on device (A/B GiB) on startup is less than desired GPU memory utilization (U, C GiB)".

Cause: another process holds memory of the GPU (often a server that has not ended, or a desktop), or the share leaves
the driver too little. The engine looks before it loads anything.

Do:
- end the other process: nvidia-smi names it
- lower --gpu-memory-utilization below the share that is free
- give this server a GPU of its own (CUDA_VISIBLE_DEVICES)

Source: https://github.com/vllm-project/vllm/issues/20305 https://github.com/vllm-project/vllm/issues/25837
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule

_NUMBERS = re.compile(
    r"\((?P<free>[\d.]+)/(?P<total>[\d.]+) GiB\) on startup is less than .*?\([\d.]+, (?P<want>[\d.]+) GiB"
)


def _advise(case: Case, advice: Advice) -> Advice:
    found = _NUMBERS.search(case.first.line)
    if found is None:
        return advice
    free, total, want = (float(number) for number in found.groups())
    if not free < total or total <= 0:
        return advice
    share = int(100 * free / total) / 100
    why = f"{free:g} of {total:g} GiB are free and {want:g} are asked for: {total - free:.1f} GiB are held by others"
    return advice.replaced(
        why,
        f"find what holds {total - free:.1f} GiB (nvidia-smi) and end it",
        f"or live with it: --gpu-memory-utilization {share:.2f} or less",
        drop=2,
    )


RULE = Rule(cost="setting", advise=_advise)
