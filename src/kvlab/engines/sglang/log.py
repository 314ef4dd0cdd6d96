"""SGLang's log: one start after another, many ranks in each, pools of draft models told from the target's."""

from __future__ import annotations

from collections.abc import Iterable

from kvlab.core.engine import LogReader
from kvlab.core.observation import Observation, Seen, patterns_in, read_line
from kvlab.core.units import GIB
from kvlab.engines.sglang.lines import (
    ALL,
    BEGUN,
    CACHE,
    CHOICE,
    CLOCK,
    COLOUR,
    DRAFT,
    FIRST,
    GRAPH_BEGINS,
    GRAPH_ENDS,
    GRAPHS,
    LOADED,
    LOADING,
    OURS,
    POOL,
    POOLS_END,
    POST_CAPTURE,
    RANK,
    RETRACTED,
    SERVING,
    SIZED,
    STARTING,
    USAGE,
    Allocation,
    allocations,
)

_AFTER = (POOLS_END, SIZED, GRAPHS, LOADING)
"""Lines of a rank that come after a pool."""
_ONLY = ""
"""The rank of lines without a prefix."""


class _Rank:
    """What one rank allocates: the target's pools, then those of each draft model."""

    def __init__(self) -> None:
        self.pools: list[list[Allocation]] = [[]]
        self.graphs = 0.0
        self.loaded = 0
        """Models that it began to load."""
        self.begun = False
        """Something was seen that comes before the target's pools."""
        self.whole = True
        """What comes before the first pool was seen, and every line is in its order."""
        self.closed = False
        """Something was seen that comes after the target's pools."""
        self.capturing = False
        """In a phase of graphs of which the end was not seen."""
        self.unsized = False
        """The end of a phase of graphs was seen without its size."""
        self.models: list[bool] = []
        """Of each model that it loaded, whether it is a draft's."""
        self.clock = ""

    def look(self, line: str) -> None:
        """Where in its start this rank is."""
        if clock := CLOCK.search(line):
            self.whole = self.whole and clock.group(1) >= self.clock  # one process: its clock never goes back
            self.clock = max(clock.group(1), self.clock)
        self.whole = self.whole and not (POOL.search(line) and CACHE.search(line) is None)  # it lacks its sizes
        if loaded := LOADED.search(line):
            self.models.append(DRAFT.search(loaded.group(1)) is not None)
        if LOADING.search(line) or BEGUN.search(line):
            self.begun = True
        self.loaded += LOADING.search(line) is not None
        begins = GRAPH_BEGINS.search(line) is not None
        sized = GRAPHS.search(line) is not None
        self.capturing = (self.capturing or begins) and not sized
        self.unsized = self.unsized or (GRAPH_ENDS.search(line) is not None and not sized)
        if any(self.pools) and (begins or any(after.search(line) for after in _AFTER)):
            self.closed = True

    def add(self, found: list[Allocation], *, anew: bool = False) -> None:
        """Pools of the model at hand; `anew`: the target's, in their final size."""
        if not any(self.pools):
            self.whole = self.whole and self.begun and not (self.models and all(self.models))
        if anew:
            self.pools[0] = found
        else:
            self.pools[-1] += found

    def end(self) -> None:
        """The line that follows the pools of one model."""
        if self.pools[-1]:
            self.pools.append([])


class _Start:
    """One start of the server."""

    def __init__(self) -> None:
        self.seen: dict[str, Seen] = {}
        self.ranks: dict[str, _Rank] = {}
        self.graphs: Seen | None = None
        self.sized = False
        self.first = False
        """Its first line was seen."""

    def rank(self, name: str) -> _Rank:
        return self.ranks.setdefault(name, _Rank())

    def put(self, item: Seen) -> None:
        """Keep the one of several ranks' statements that decides; of the target's and a draft's, the first."""
        before = self.seen.get(item.name)
        if before is None or _decides(item, before):
            self.seen[item.name] = item

    def graph(self, rank: str, size: float, line: str, number: int) -> None:
        """Graphs of all phases on the rank that spends most."""
        own = self.rank(rank)
        own.graphs += size
        own.whole = own.whole and (own.begun or any(own.pools))
        if self.graphs is None or own.graphs >= float(self.graphs.value):
            self.graphs = _bytes("graph_bytes", own.graphs, line, number)

    def said(self) -> list[Seen]:
        """Everything that this start stated."""
        found = list(self.seen.values())
        ranks = self.ranks.values()
        if self.graphs is not None and not any(rank.capturing or rank.unsized or not rank.whole for rank in ranks):
            found.append(self.graphs)
        first = next((rank for rank in ranks if rank.pools[0]), None)
        return found if first is None else [*found, *self._pools(first)]

    def _pools(self, rank: _Rank) -> list[Seen]:
        models = [pools for pools in rank.pools if pools]
        split = "kv_window_tokens" in self.seen or "kv_bytes" in self.seen
        target, drafts = models[0], [pool for pools in models[1:] for pool in pools]
        if not split:
            target, drafts = target[:1], [*target[1:], *drafts]
        found = [] if "kv_tokens" in self.seen else _tokens(max(target, key=lambda pool: pool.tokens or 0))
        if not rank.whole:
            return found
        if len(target) == 1 and rank.closed and not split:
            found += _sizes(target[0])
        drafted = sum((pool.key or 0) + (pool.value or 0) + (pool.both or 0) for pool in drafts)
        if drafts and not rank.pools[-1]:  # before the last pools end, what is a draft's is not told yet
            found.append(_bytes("draft_kv_bytes", drafted, drafts[0].line, drafts[0].number))
        return found


def _decides(item: Seen, before: Seen) -> bool:
    """Whether a later rank's number is the one that counts."""
    choose = CHOICE.get(item.name)
    if choose is None or isinstance(item.value, str) or isinstance(before.value, str):
        return False
    return choose(item.value, before.value) != before.value


def _sizes(pool: Allocation) -> list[Seen]:
    found = []
    for name, size in (("kv_k_bytes", pool.key), ("kv_v_bytes", pool.value), ("kv_bytes", pool.both)):
        if size is not None:
            found.append(_bytes(name, size, pool.line, pool.number))
    return found


def _tokens(pool: Allocation) -> list[Seen]:
    """The pool's tokens, where its line states them."""
    if pool.tokens is None:
        return []
    return [Seen(name="kv_tokens", value=float(pool.tokens), unit="tokens", line=pool.line, line_number=pool.number)]


def _bytes(name: str, size: float, line: str, number: int) -> Seen:
    return Seen(name=name, value=size, unit="bytes", line=line, line_number=number)


class _Reader:
    """Lines one by one; a start is told from the next by its first line, or by weights loaded after a pool is sized."""

    def __init__(self) -> None:
        self.done: list[Seen] = []
        self.start = _Start()
        self.retracted: Seen | None = None
        self.usage: Seen | None = None

    def read(self, number: int, line: str) -> None:
        if any(word in line for word in SERVING):
            self._served(number, line)
        if any(word in line for word in STARTING):
            for record in _records(line):
                self._starting(number, record)

    def _starting(self, number: int, line: str) -> None:
        named = RANK.search(line)
        rank = named.group(1).strip() if named else _ONLY
        if FIRST.search(line) or (self.start.sized and LOADING.search(line)):
            self.finish()
        start = self.start
        start.first = start.first or FIRST.search(line) is not None
        start.rank(rank).begun = start.rank(rank).begun or start.first
        start.rank(rank).look(line)
        for item in read_line(line, number, ALL):
            if item.name != "free_before_load_bytes" or start.rank(rank).loaded == 1:  # a draft finds the target there
                start.put(item)
        if found := allocations(line, number):
            start.rank(rank).add(found, anew=POST_CAPTURE in line)
        if POOLS_END.search(line):
            start.rank(rank).end()
        for match in GRAPHS.finditer(line):
            start.graph(rank, float(match.group(1)) * GIB, line.strip(), number)
        start.sized = start.sized or SIZED.search(line) is not None

    def _served(self, number: int, line: str) -> None:
        if match := RETRACTED.search(line):
            before = float(self.retracted.value) if self.retracted else 0.0
            value = before + int(match.group(1))
            self.retracted = _count("retracted_requests_in_log", value, "requests", line, number)
        if match := USAGE.search(line, max(0, line.find(" batch"))):
            peak = float(match.group(1))
            if self.usage is None or peak > float(self.usage.value):
                self.usage = _count("peak_kv_used_ratio", peak, "share", line, number)

    def finish(self) -> None:
        """End a start: what it said comes before what the next one will say."""
        self.done += self.start.said()
        self.start = _Start()

    def observation(self) -> Observation:
        self.finish()
        served = [item for item in (self.retracted, self.usage) if item is not None]
        return Observation(engine="sglang", seen=(*self.done, *served))


def _records(line: str) -> list[str]:
    """A line's records: two ranks that write at once may put theirs into one."""
    begins = [match.start() for match in RANK.finditer(line)][1:]
    return [line[begin:end] for begin, end in zip((0, *begins), (*begins, None), strict=True)] if begins else [line]


def _count(name: str, value: float, unit: str, line: str, number: int) -> Seen:
    return Seen(name=name, value=value, unit=unit, line=line.strip(), line_number=number)


def _read(lines: Iterable[str]) -> Observation:
    reader = _Reader()
    for number, line in enumerate(lines, 1):
        reader.read(number, COLOUR.sub("", line) if "\x1b" in line else line)
    return reader.observation()


LOG = LogReader(
    said=ALL,
    recognises=lambda line: OURS.search(COLOUR.sub("", line)) is not None,
    read=_read,
    also=(*patterns_in(globals(), OURS, COLOUR, RANK), CACHE),
    gathered=("graph_bytes", "draft_kv_bytes", "kv_bytes", "kv_k_bytes", "kv_v_bytes"),
    continued=("graph_bytes",),
)
