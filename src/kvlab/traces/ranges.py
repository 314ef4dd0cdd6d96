"""Agent sessions as ranges of block ids: a header a session, then a line a request.

{"trace", "header": 1, "block_size"} and {"trace", "t" (seconds from the session's start), "in", "out", "api" (seconds),
"r": [[first, last], ...]}. Ids are a session's own; full blocks only. All sessions are taken to start together.
"""

from __future__ import annotations

from array import array
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import msgspec

from kvlab.core.columns import offsets, places
from kvlab.core.errors import BadInput
from kvlab.core.trace import Blocks, Reading, Sample, Trace, TraceReader
from kvlab.traces._rows import MOST_BLOCKS, Length, Moment, Rows, json_rows, keys

if TYPE_CHECKING:
    from kvlab.core.trace import Ints, Sampling


_Id = Annotated[int, msgspec.Meta(ge=0, lt=1 << 40)]


class _Row(msgspec.Struct):
    trace: Annotated[int, msgspec.Meta(ge=-(1 << 62), lt=1 << 62)]
    header: int | None = None
    block_size: Annotated[int, msgspec.Meta(ge=1, le=1 << 24)] | None = None
    t: Moment = 0.0
    inputs: Length = msgspec.field(default=0, name="in")
    outputs: Length = msgspec.field(default=0, name="out")
    api: Moment | None = None
    """Seconds that the answer took."""
    r: tuple[tuple[_Id, _Id], ...] = ()


def _recognises(head: str) -> bool:
    found = keys(head)
    return {"trace", "header", "block_size"} <= found or {"trace", "r"} <= found


def _read(path: Path, reading: Reading) -> Trace:
    import numpy as np

    rows, sizes = Rows(path), set()
    blocks, size = 0, 1
    session, edges, counts = array("q"), array("q"), array("q")
    for where, row in json_rows(path, _Row, rows):
        if row.header is not None:
            sizes.add(row.block_size)
            size = max((one for one in sizes if one), default=1)
            continue
        held, why = _held(row, size)
        if why:
            rows.leave_out(where, why)
        else:
            blocks += held
            if reading.sampling is None and blocks > MOST_BLOCKS:
                raise BadInput(f"{path} names more than {MOST_BLOCKS:,} blocks by {where}; give a part of it")
            rows.add(row.t, row.inputs, row.outputs, row.api)
            session.append(row.trace)
            edges.extend(chain.from_iterable(row.r))
            counts.append(len(row.r))
    if len(sizes) != 1 or None in sizes:
        raise BadInput(
            f"{path} must state one block size in its headers, it states {sorted(map(str, sizes)) or 'none'}"
        )
    trace = rows.trace("ranges", 1.0)
    assert trace.arrivals is not None
    assert trace.outputs is not None
    order = np.lexsort((np.asarray(session), trace.arrivals))
    ranges = (np.asarray(edges)[::2], np.asarray(edges)[1::2], np.asarray(counts))
    return trace._replace(
        inputs=trace.inputs[order],
        outputs=trace.outputs[order],
        arrivals=trace.arrivals[order],
        services=None if trace.services is None else trace.services[order],
        blocks=_blocks(_ordered(np.asarray(session), ranges, order), sizes.pop() or 1, reading.sampling),
        clock_jumps=0,  # a session's own clock, and sessions are merged
        first_jump=0,
    )


def _held(row: _Row, size: int) -> tuple[int, str]:
    """Blocks of the request, and why it cannot be one of full blocks of `size` tokens; nothing when it can."""
    blocks, before, rising = 0, -1, True
    for first, last in row.r:
        if first > last:
            return 0, "a range of ids ends before it begins"
        blocks += last - first + 1
        rising = rising and first > before
        before = last
    if blocks * size > row.inputs:
        return blocks, "its blocks hold more tokens than its prompt"
    if not rising and any(after[0] <= one[1] for one, after in pairwise(sorted(row.r))):
        return blocks, "a block id is there twice, which a prefix cannot be"
    return blocks, ""


class _Ranges(NamedTuple):
    """Ranges of ids in the order of the requests; request r's from ends[r] to ends[r + 1]. Ids lie below `bound`."""

    low: Ints
    lengths: Ints
    ends: Ints
    bound: int


def _ordered(session: Ints, ranges: tuple[Ints, Ints, Ints], order: Ints) -> _Ranges:
    """The ranges of request order[0], then those of order[1] ...; each session's ids get a place of their own."""
    import numpy as np

    low, high, counts = ranges
    owner = np.repeat(session, counts)
    known, place = np.unique(owner, return_inverse=True)
    top = np.zeros(len(known), dtype=np.int64)
    np.maximum.at(top, place, high + 1)
    base = offsets(top)
    low, lengths = low + base[place], high - low + 1
    picked = places(offsets(counts)[order], counts[order])
    return _Ranges(low[picked], lengths[picked], offsets(counts[order]), int(base[-1]))


def _blocks(ranges: _Ranges, size: int, sampling: Sampling | None) -> Blocks:
    """The ranges as one column of ids; of a sample, no other id is ever written out."""
    import numpy as np

    short = np.zeros(len(ranges.ends) - 1, dtype=np.int64)
    starts = offsets(ranges.lengths)
    if sampling is None:
        narrow = np.int32 if ranges.bound < 2**31 and starts[-1] < 2**31 else np.int64
        ids = np.repeat((ranges.low - starts[:-1]).astype(narrow), ranges.lengths)
        ids += np.arange(len(ids), dtype=narrow)
        return Blocks(ids, starts[ranges.ends], ranges.bound, size, short, own=True)
    from kvlab.traces._sample import chosen, occurring

    known = chosen(ranges.bound, sampling)
    begin, end = (np.searchsorted(known, edge) for edge in (ranges.low, ranges.low + ranges.lengths))
    ids = known[places(begin, end - begin)]
    edges = (np.bincount(edge, minlength=ranges.bound + 1) for edge in (ranges.low, ranges.low + ranges.lengths))
    times = np.cumsum(np.subtract(*edges))
    sample = Sample(sampling.rate, np.diff(starts[ranges.ends]), short, occurring(times))
    return Blocks(ids, offsets(end - begin)[ranges.ends], ranges.bound, size, short, own=True, sample=sample)


READER = TraceReader("agent sessions as ranges of block ids", _recognises, _read)
