"""The lines that vLLM and SGLang write while they work: how many run, how many wait, how full the cache is."""

from __future__ import annotations

_VLLM = (
    r"Running: (?P<running>{running}) reqs, (?:Swapped: {swapped} reqs, )?(?:Waiting|Pending): (?P<waiting>{waiting})"
    r" reqs,"
)
_ITS_CACHE = r"(?:(?!KV cache usage).)*KV cache usage: {used}%"
"""The GPU's share: V0 states the CPU's after it."""
_SGLANG = (
    r"Decode batch[.,] #running-req: (?P<running>{running}),.*? token usage: {used},"
    r".*?#queue-req: (?P<waiting>[1-9]\d*)"
)
SOME = r"[1-9]\d*"


def vllm(*, running: str = r"\d+", waiting: str = SOME, swapped: str = r"\d+", used: str | None = None) -> str:
    """A pattern of vLLM's line with these numbers in it, each a pattern; `used` None: however full the cache is."""
    counts = _VLLM.format(running=running, waiting=waiting, swapped=swapped)
    return counts if used is None else counts + _ITS_CACHE.format(used=used)


def vllm_other(*, used: str) -> str:
    """A pattern of vLLM's line when nothing waits, or the cache is otherwise used."""
    return r"(?:Waiting|Pending): 0 reqs|^" + _ITS_CACHE.format(used=used)


def sglang(*, running: str = r"\d+", used: str) -> str:
    """A pattern of SGLang's line with requests in the queue."""
    return _SGLANG.format(running=running, used=used)


def sglang_other(*, used: str) -> str:
    """A pattern of SGLang's line when the queue is empty, or the cache is otherwise used."""
    return rf"Decode batch.*? token usage: {used}|Decode batch.*?#queue-req: 0\b"
