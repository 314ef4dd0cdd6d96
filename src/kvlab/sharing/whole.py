"""`kvlab prefix` as a whole: the quick part, and those that are asked for."""

from __future__ import annotations

from collections.abc import Callable
from random import SystemRandom
from typing import TYPE_CHECKING

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.plan import Plan
from kvlab.core.quality import Prefix
from kvlab.sharing.blocks import measure_block
from kvlab.sharing.churn import Bounds, measure_churn
from kvlab.sharing.counters import reconciled
from kvlab.sharing.lengths import ladder, measure_lengths
from kvlab.sharing.line import Line
from kvlab.sharing.pool import Pool, merged, planned, stated
from kvlab.sharing.quick import LONG_PREFIX, check_counts, judge_prefix, send_rounds
from kvlab.sharing.salts import TOKENS, measure_salts
from kvlab.sharing.server import Known, look, vocabulary
from kvlab.sharing.writer import Writer

if TYPE_CHECKING:
    from kvlab.core.prefix import PrefixBlock, PrefixChurn, PrefixLengths, PrefixSalts

OnPart = Callable[[str, int, int], None]
"""Told (part in words, done, total) of the requests."""
_SALTED = 4
"""Copies of the salted prompt, and room, that the pool must hold."""
QUICK, LENGTHS, BLOCK, SALTS, CHURN = "cold and warm", "lengths", "block size", "salts", "churn"


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What `kvlab prefix` is asked beside its quick part."""

    lengths: bool = False
    """Cold and warm over several lengths: those of `prefix_tokens` if there are several, else a default ladder."""
    prefix_tokens: tuple[int, ...] = ()
    churn: bool = False
    block_size: bool = False
    salts: bool = False
    plan: Plan | None = None
    """Whose pool and block size are looked for; None: what the server states."""
    churn_tokens: int | None = None
    """Tokens of each prefix of the churn; None: a twelfth of the pool."""
    most_requests: int = 400
    most_seconds: float = 300.0
    """Bounds of the churn, which else grows until hits fall."""


def measure(
    url: str,
    engine: str | None,
    asked: Asked,
    *,
    rounds: int = 4,
    warm: int = 3,
    on_part: OnPart = lambda part, done, total: None,
) -> Prefix:
    """The quick part, then the parts asked for, each on an account of its own; see `run_prefix` for what is raised."""
    check_counts(rounds, warm)
    _check(asked)
    known = look(url, engine)
    several = len(asked.prefix_tokens) > 1
    lengths = ladder(asked.prefix_tokens if several else (), known.room) if asked.lengths or several else ()
    most = max(asked.prefix_tokens) if asked.prefix_tokens else min(LONG_PREFIX, known.room or LONG_PREFIX)
    quick = send_rounds(
        url,
        known.engine,
        rounds=rounds,
        warm=warm,
        prefix_tokens=most,
        progress=lambda done, total: on_part(QUICK, done, total),
    )
    found = judge_prefix(quick.rows, quick.pool, warm=warm)
    further = bool(lengths) or asked.churn or asked.block_size or asked.salts
    line = Line(url, known, Writer(vocabulary(url, known.engine) if further else (), SystemRandom()))
    line.book(QUICK, quick)
    parts = _Parts(line, known, asked, on_part)
    of_lengths = parts.lengths(lengths, rounds, warm) if lengths else None
    block = parts.block() if asked.block_size else None
    salts = parts.salts() if asked.salts else None
    churn = parts.churn() if asked.churn else None
    size = known.stated.get("block_size")
    return msgspec.structs.replace(
        found,
        engine=known.engine,
        lengths=of_lengths,
        counters=reconciled(line.accounts, None if size is None else int(size)),
        block=block,
        salts=salts,
        churn=churn,
    )


def _check(asked: Asked) -> None:
    if asked.most_requests < 4:
        raise BadInput(f"{asked.most_requests} requests are too few to see prefixes evicted; ask for 4 or more")
    if not 0 < asked.most_seconds < float("inf"):
        raise BadInput(f"{asked.most_seconds} is no number of seconds to stop after; give a positive one")
    if asked.churn_tokens is not None and asked.churn_tokens < 16:
        raise BadInput(f"prefixes of {asked.churn_tokens} tokens are too short to see; ask for 16 or more")


class _Parts:
    """The parts on one server."""

    def __init__(self, line: Line, known: Known, asked: Asked, on_part: OnPart) -> None:
        self._line, self._known, self._asked, self._on_part = line, known, asked, on_part

    def _tell(self, part: str) -> Callable[[int, int], None]:
        return lambda done, total: self._on_part(part, done, total)

    def lengths(self, lengths: tuple[int, ...], rounds: int, warm: int) -> PrefixLengths:
        with self._line.part(LENGTHS):
            return measure_lengths(self._line, lengths, rounds=rounds, warm=warm, tell=self._tell(LENGTHS))

    def block(self) -> PrefixBlock:
        with self._line.part(BLOCK):
            return measure_block(self._line, self._known.room, self._block(), self._tell(BLOCK))

    def salts(self) -> PrefixSalts:
        size = self._block()
        wanted = max(TOKENS, 2 * size[0] if size else 0)
        pool = stated(self._known.stated)
        # The same prompt is kept once for each salt, where there is no slot for each sequence.
        kept = pool.tokens // _SALTED if pool.tokens is not None and pool.slots is None else None
        tokens = min(limit for limit in (wanted, self._known.room, kept) if limit is not None)
        with self._line.part(SALTS):
            return measure_salts(self._line, tokens, self._tell(SALTS))

    def churn(self) -> PrefixChurn:
        bounds = Bounds(self._asked.most_requests, self._asked.most_seconds)
        with self._line.part(CHURN):
            return measure_churn(self._line, self._asked.churn_tokens, self._pool(), bounds, self._tell(CHURN))

    def _pool(self) -> Pool:
        server = stated(self._known.stated)
        return server if self._asked.plan is None else merged(planned(self._asked.plan), server)

    def _block(self) -> tuple[int, str] | None:
        """The stated block size and who states it. An engine without blocks states none, whatever its plan holds."""
        size = self._known.stated.get("block_size")
        if size is not None:
            return int(size), "the server"
        capacity = self._asked.plan.capacity if self._asked.plan else None
        return None if capacity is None else (capacity.block_size, "the plan")
