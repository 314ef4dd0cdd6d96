"""The block size, found from where hits begin: prompts that share exactly n tokens with one that is cached."""

from __future__ import annotations

from collections.abc import Callable

from kvlab.core.errors import ServerRefused
from kvlab.core.prefix import BlockProbe, PrefixBlock, Told
from kvlab.sharing.line import Line
from kvlab.sharing.writer import Passage

FIRST_TRY = 640
"""Tokens of the first cached prompt: longer than most blocks, and than the common sliding window of 512."""
LONGEST = 16_384
"""Tokens of the last try: blocks of models with recurrent state may have some thousands."""
TAIL = 16
"""Tokens after the shared ones, so that no probe's last token, which is always computed, is one of them."""
WINDOW = "as an engine does that keeps no more of a sliding layer than its window"
PROBES = 20
"""Further probes, of which the search for the first hit takes most."""


class Probing:
    """Sends probes and keeps what they found."""

    def __init__(self, line: Line, tell: Callable[[int, int], None]) -> None:
        self._line = line
        self._tell = tell
        self._base: tuple[int, ...] = ()
        self.probes: list[BlockProbe] = []

    def cache(self, tokens: int) -> None:
        """A new prompt of `tokens` tokens, which the probes share the beginning of."""
        self._base = _ids(self._line.writer.passage(tokens + 1))

    def cached(self, shared: int) -> int | None:
        """Cached tokens of a prompt that shares exactly `shared` tokens with the cached one; None when not stated.

        The cached one is sent before every probe: an engine that keeps a sequence for each slot overwrites it.
        """
        known = next((probe for probe in self.probes if probe.shared_tokens == shared), None)
        if known is not None:
            return known.cached_tokens
        whole, number = self._base[:-1], len(self.probes)
        other = self._line.writer.unlike(self._base[shared], TAIL)
        prompts = [
            self._line.prompt(f"base-{number}", whole),
            self._line.prompt(f"probe-{shared}", whole[:shared], other),
        ]
        sent = self._line.send(prompts)
        found = sent[1].cached if all(one.ttft for one in sent) else None
        self.probes.append(BlockProbe(shared_tokens=shared, cached_tokens=found))
        self._tell(len(self.probes), PROBES)
        return found


def measure_block(
    line: Line, room: int | None, stated: tuple[int, str] | None, tell: Callable[[int, int], None]
) -> PrefixBlock:
    """The unit of reuse. `stated`: the block size by the plan or the server, and who says so.

    A prompt is cached, and again all of it shared: the cached tokens end at a boundary. One token less than that
    boundary loses a whole block, so the difference is the block size. It is then tested on both sides of other
    boundaries, and the shortest prefix that is reused whole is looked for.
    """
    if not line.writer.exact:
        return _unseen(
            (), stated, "the server has no tokenizer that kvlab knows, so no exact number of tokens is shared"
        )
    probing = Probing(line, tell)
    try:
        whole = _first_boundary(probing, room)
        if not whole:
            return _unseen(tuple(probing.probes), stated, _nothing(probing))
        before = probing.cached(whole - 1)
        size = whole - before if before is not None else None
        if size is None or size < 1:
            return _unseen(tuple(probing.probes), stated, f"{whole - 1:,} shared tokens hit no less than {whole:,}")
        first = _first_hit(probing, whole, size)
        around = (first - 1, first + 1, first + size - 1, first + size)
        others = [at for at in around if size > 1 and at <= whole]
        for at in others:
            probing.cached(at)
    except ServerRefused as error:
        return _unseen(tuple(probing.probes), stated, str(error))
    return _judged(tuple(sorted(probing.probes, key=lambda probe: probe.shared_tokens)), size, first, stated)


def _ids(passage: Passage) -> tuple[int, ...]:
    return tuple(token for token in passage if isinstance(token, int))


def _first_boundary(probing: Probing, room: int | None) -> int | None:
    """Cached tokens of a prompt that is shared whole; prompts grow until there are some."""
    most = LONGEST if room is None else min(LONGEST, room)
    tokens = min(FIRST_TRY, most)
    while True:
        probing.probes.clear()
        probing.cache(tokens)
        found = probing.cached(tokens)
        if found is None or found > 0 or tokens >= most:
            return found
        tokens = min(2 * tokens, most)


def _first_hit(probing: Probing, whole: int, size: int) -> int:
    """The fewest shared tokens, a multiple of `size`, that are reused whole; found by halving."""
    if size > 1 and probing.cached(size) == size:
        return size
    low, high = 0, whole // size  # in blocks: 0 is never reused, all of them are
    while high - low > 1 and len(probing.probes) < PROBES:
        middle = (low + high) // 2
        if probing.cached(middle * size) == middle * size:
            high = middle
        else:
            low = middle
    return high * size


def _nothing(probing: Probing) -> str:
    last = probing.probes[-1]
    if last.cached_tokens is None:
        return "neither usage nor the engine's metrics state cached tokens"
    return f"a prompt of {last.shared_tokens:,} tokens that was just sent was not found in the cache"


def _unseen(probes: tuple[BlockProbe, ...], stated: tuple[int, str] | None, why: str) -> PrefixBlock:
    return _built(probes, None, None, stated, ("not seen", why))


def _built(
    probes: tuple[BlockProbe, ...],
    size: int | None,
    first: int | None,
    stated: tuple[int, str] | None,
    judged: tuple[Told, str],
) -> PrefixBlock:
    return PrefixBlock(
        probes=probes,
        block_size=size,
        first_hit_tokens=first,
        stated_block_size=stated[0] if stated else None,
        stated_by=stated[1] if stated else None,
        verdict=judged[0],
        because=judged[1],
    )


def _judged(probes: tuple[BlockProbe, ...], size: int, first: int, stated: tuple[int, str] | None) -> PrefixBlock:
    odd = [
        probe
        for probe in probes
        if probe.cached_tokens is not None
        and probe.shared_tokens >= first
        and probe.cached_tokens != probe.shared_tokens // size * size
    ]
    if odd:
        one = odd[0]
        why = (
            f"one token less than a boundary loses {size:,}, but {one.shared_tokens:,} shared tokens hit"
            f" {one.cached_tokens:,}: the cache was not the same in all probes"
        )
        return _unseen(probes, stated, why)
    text = _evidence(probes, size, first)
    if stated is None:
        return _built(probes, size, first, None, ("not seen", f"{text}; neither a plan nor the server states a size"))
    tokens, by = stated
    if tokens == size:
        return _built(probes, size, first, stated, ("agrees", f"{text}; {by} states the same"))
    text += f"; {by} states {tokens:,}"
    if size % tokens == 0:
        text += ": hits come in multiples of it, as where groups of layers with other blocks must hit together"
    return _built(probes, size, first, stated, ("differs", text))


def _evidence(probes: tuple[BlockProbe, ...], size: int, first: int) -> str:
    told = {probe.shared_tokens: probe.cached_tokens for probe in probes}
    if size == 1:
        text = "reused token by token"
        below = [tokens for tokens in told if tokens < first and told[tokens] is not None]
        if below:
            at = max(below)
            text += f" from {first:,} shared tokens on ({at:,} shared: {told[at]:,} cached), {WINDOW}"
        return text
    short = f"{first - 1:,} shared tokens hit {told[first - 1]:,}, " if told.get(first - 1) is not None else ""
    ends = max(told)
    less = max((tokens for tokens in told if tokens < ends // size * size), default=0)
    return (
        f"blocks of {size:,} tokens: {short}{first:,} hit {first:,}; {less:,} hit {told.get(less) or 0:,},"
        f" {ends:,} hit {told[ends] or 0:,}"
    )
