"""GPU memory as a ledger: what is there, what is taken away and why, what is left for the cache."""

from __future__ import annotations

from kvlab.core.engine import Gpu, ShareOf
from kvlab.core.model import Kind
from kvlab.core.plan import Ask, LedgerLine
from kvlab.core.taken import Taken
from kvlab.core.units import GIB, gib


def held_by_others(ask: Ask, gpu: Gpu) -> int:
    """Bytes of the GPU that other programs hold (`--share`)."""
    return round((ask.share_gib or 0) * GIB + (ask.share_fraction or 0) * gpu.usable_bytes)


def given_pool(pool_gib: float) -> tuple[LedgerLine, ...]:
    """The ledger of a pool that the user states: nothing to sum."""
    return (_line("pool", round(pool_gib * GIB), "computed", "taken as given (--pool-gib)"),)


def ledger(
    gpu: Gpu, share: float | None, taken: list[Taken], share_of: ShareOf = "all", others: int = 0
) -> tuple[LedgerLine, ...]:
    """GPU memory, less what is taken and what the engine leaves: the last line is the pool, with its range.

    `share_of` "all": memory x share - taken, as vLLM computes it after profiling. "free": (memory - taken) x share, as
    TensorRT-LLM and LMDeploy do, which look at what is free once the weights are loaded. `share` None: all of it.
    `others`: bytes that other programs hold; what an engine leaves of all the memory is left to them first.
    """
    whole = gpu.usable_bytes
    lines = [_line("gpu_memory", whole, "computed", f"{gpu.title}: {gib(whole)} usable")]
    if others:
        lines.append(_line("others", -others, "computed", "held by other programs on this GPU, as given (--share)"))
    if share is not None and share_of == "all":
        unused = max(0, whole - round(whole * share) - others)
        lines.append(
            _line("left_free", -unused, "computed", f"the engine claims {share:g} of the memory and leaves the rest")
        )
    for item in taken:
        lines.append(
            LedgerLine(
                name=item.name, bytes=-item.bytes, kind=item.kind, low=-item.high, high=-item.low, because=item.because
            )
        )
    kind: Kind = "estimated" if any(line.kind == "estimated" for line in lines) else "computed"
    if share is not None and share_of == "free":
        lines.append(_left_of_free(lines, share, kind))
    low, size, high = (sum(getattr(line, end) for line in lines) for end in ("low", "bytes", "high"))
    if lines[-1].name == "left_free":  # what is left and what is free move together
        low, high = low - lines[-1].low + lines[-1].high, high - lines[-1].high + lines[-1].low
    because = "what is left for the cache" if gpu.name == "cpu" else "what is left for the cache on one GPU"
    return (*lines, LedgerLine(name="pool", bytes=size, kind=kind, low=low, high=high, because=because))


def _left_of_free(lines: list[LedgerLine], share: float, kind: Kind) -> LedgerLine:
    """What an engine leaves that claims a share of the memory which is free after the lines before."""
    left = [
        max(0, free) - round(max(0, free) * share)
        for free in (sum(getattr(line, end) for line in lines) for end in ("low", "bytes", "high"))
    ]
    because = f"the engine claims {share:g} of what is free after the lines above and leaves the rest"
    return LedgerLine(name="left_free", bytes=-left[1], kind=kind, low=-left[2], high=-left[0], because=because)


def _line(name: str, amount: int, kind: Kind, because: str) -> LedgerLine:
    return LedgerLine(name=name, bytes=amount, kind=kind, low=amount, high=amount, because=because)
