"""GPU memory as a ledger: what is there, what is taken away and why, what is left for the cache."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Gpu
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


def ledger(gpu: Gpu, share: float | None, taken: list[Taken]) -> tuple[LedgerLine, ...]:
    """GPU memory x share, less what is taken: the last line is the pool, with the range that its parts leave.

    Pool = memory x utilisation - weights - overhead, as vLLM computes it after profiling; `share` None: all of it.
    """
    whole = gpu.usable_bytes
    lines = [_line("gpu_memory", whole, "computed", f"{gpu.title}: {gib(whole)} usable")]
    unused = whole - round(whole * share) if share is not None else 0
    if share is not None:
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
    lines.append(
        LedgerLine(
            name="pool",
            bytes=sum(line.bytes for line in lines),
            kind=kind,
            low=sum(line.low for line in lines),
            high=sum(line.high for line in lines),
            because="what is left for the cache on one GPU",
        )
    )
    return tuple(lines)


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
