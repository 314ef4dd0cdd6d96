"""What the rules about memory share: the lines, and the sizes in them."""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Sign

OUT_OF_MEMORY = (Sign(pattern=re.compile(r"CUDA runtime error.{0,60}: out of memory|CUDA error: out of memory")),)
"""CUDA's own words, whichever engine runs on it; PyTorch's and ggml's are failures of the engines."""

# PyTorch: "Tried to allocate 448.00 MiB. GPU 7 has a total capacity of 95.00 GiB of which 21.12 MiB is free."
_ASKED = re.compile(r"Tried to allocate (?P<asked>[\d.]+ [KMGT]iB)")
_FREE = re.compile(
    r"total capacity of (?P<total>[\d.]+ [KMGT]iB) of which (?P<free>[\d.]+ [KMGT]?iB|[\d.]+ bytes) is free"
)
# ggml: "allocating 9216.00 MiB on device 0: cudaMalloc failed: out of memory", "(attempted to allocate 5859.75 MB)"
_GGML = re.compile(r"allocating (?P<asked>[\d.]+ MiB) on device \d+|attempted to allocate (?P<host>[\d.]+ MB)\)")
_RETRIED = re.compile(r"\b[Rr]etrying\b")
_OTHERS = re.compile(r"Process \d+ has (?P<size>[\d.]+ [KMGT]iB) memory in use")


def with_sizes(case: Case, advice: Advice) -> Advice | None:
    """The advice with the sizes that the error states before its reason; None when the engine only tried less again."""
    if _RETRIED.search(case.last.line):
        return None
    line = case.first.line
    asked = _ASKED.search(line) or _GGML.search(line)
    if asked is None:
        return advice
    free = _FREE.search(line)
    left = f" with {free['free']} of {free['total']} free" if free else ""
    other = _OTHERS.search(line)
    held = f" (another process holds {other['size']})" if other else ""
    size = asked["asked"] or asked["host"].replace("MB", "MiB")  # ggml divides by 1024 twice and says MB
    return advice.replaced(f"{size} more were asked for{left}{held}: {advice.why}")
