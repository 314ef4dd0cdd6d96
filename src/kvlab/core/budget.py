"""GPU memory as a ledger: what is there, what is taken away and why, what is left for the cache."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Gpu, ShareOf
from kvlab.core.model import Kind, Weights
from kvlab.core.plan import LedgerLine
from kvlab.core.units import GIB, gib


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """Memory that the cache cannot have, as a range when it is not known exactly."""

    name: str
    low: int
    bytes: int
    high: int
    kind: Kind
    because: str


def given_pool(pool_gib: float) -> tuple[LedgerLine, ...]:
    """The ledger of a pool that the user states: nothing to sum."""
    return (_line("pool", round(pool_gib * GIB), "computed", "taken as given (--pool-gib)"),)


def ledger(gpu: Gpu, share: float | None, taken: list[Taken], share_of: ShareOf = "all") -> tuple[LedgerLine, ...]:
    """GPU memory, less what is taken and what the engine leaves: the last line is the pool, with its range.

    `share_of` "all": memory x share - taken, as vLLM computes it after profiling. "free": (memory - taken) x share, as
    TensorRT-LLM and LMDeploy do, which look at what is free once the weights are loaded. `share` None: all of it.
    """
    whole = gpu.usable_bytes
    lines = [_line("gpu_memory", whole, "computed", f"{gpu.title}: {gib(whole)} usable")]
    if share is not None and share_of == "all":
        unused = whole - round(whole * share)
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
    because = "what is left for the cache on one GPU"
    return (*lines, LedgerLine(name="pool", bytes=size, kind=kind, low=low, high=high, because=because))


def _left_of_free(lines: list[LedgerLine], share: float, kind: Kind) -> LedgerLine:
    """What an engine leaves that claims a share of the memory which is free after the lines before."""
    left = [
        max(0, free) - round(max(0, free) * share)
        for free in (sum(getattr(line, end) for line in lines) for end in ("low", "bytes", "high"))
    ]
    because = f"the engine claims {share:g} of what is free after the lines above and leaves the rest"
    return LedgerLine(name="left_free", bytes=-left[1], kind=kind, low=-left[2], high=-left[0], because=because)


def weights_taken(weights: Weights, ranks: int) -> Taken:
    """Weights on one rank. Split over ranks, norms and embeddings are partly copied: the share is a lower bound."""
    share = weights.bytes // ranks
    low = share if weights.low is None else weights.low // ranks
    high = share if weights.high is None else weights.high // ranks
    if ranks == 1:
        return Taken(name="weights", low=low, bytes=share, high=high, kind=weights.kind, because=weights.because)
    return Taken(
        name="weights",
        low=low,
        bytes=round(share * 1.03),
        high=round(high * 1.15),
        kind="estimated",
        because=f"{weights.because}, over {ranks} GPUs; what every rank keeps a copy of comes on top",
    )


def _line(name: str, amount: int, kind: Kind, because: str) -> LedgerLine:
    return LedgerLine(name=name, bytes=amount, kind=kind, low=amount, high=amount, because=because)
