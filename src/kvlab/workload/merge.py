"""Several files as one trace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from kvlab.core.columns import offsets
from kvlab.core.errors import BadInput
from kvlab.core.trace import COUNTED, MOST_SHOWN, Blocks, LeftOutRows, Sample, Trace, in_order

if TYPE_CHECKING:
    from kvlab.core.trace import Ints

T = TypeVar("T", bound=np.generic)


def merged(traces: Sequence[Trace]) -> Trace:
    """One trace of all, by time where every file has one, else one file after the other.

    Raises BadInput for block traces of different block sizes, or of which some have no blocks.
    """
    if len(traces) == 1:
        return traces[0]
    arrivals = _joined([trace.arrivals for trace in traces])
    order = np.argsort(arrivals, kind="stable") if arrivals is not None else None
    joined = Trace(
        format=" and ".join(dict.fromkeys(trace.format for trace in traces)),
        inputs=np.concatenate([trace.inputs for trace in traces]),
        outputs=_joined([trace.outputs for trace in traces]),
        arrivals=arrivals,
        services=_joined([trace.services for trace in traces]),
        blocks=_blocks([trace.blocks for trace in traces]),
        left_out=LeftOutRows(
            count=sum(trace.left_out.count for trace in traces),
            first=tuple(row for trace in traces for row in trace.left_out.first)[:MOST_SHOWN],
        ),
        clock_jumps=sum(trace.clock_jumps for trace in traces),
        counted=max((trace.counted for trace in traces), key=COUNTED.index),
        doubts=tuple(dict.fromkeys(doubt for trace in traces for doubt in trace.doubts)),
    )
    return joined if order is None else in_order(joined, order)


def _joined(columns: Sequence[NDArray[T] | None]) -> NDArray[T] | None:
    known = [column for column in columns if column is not None]
    return np.concatenate(known) if len(known) == len(columns) else None


def _blocks(parts: Sequence[Blocks | None]) -> Blocks | None:
    known = [part for part in parts if part is not None]
    if not known:
        return None
    sizes = sorted({part.size for part in known})
    if len(known) < len(parts) or len(sizes) > 1:
        what = f"blocks of {' and '.join(map(str, sizes))} tokens" + (
            " and no blocks" if len(known) < len(parts) else ""
        )
        raise BadInput(f"files with {what} are not one cache; analyse them one by one")
    ids, counts, bound = [], [], 0
    for part in known:
        ids.append(part.ids.astype(np.int64) + (bound if part.own else 0))
        counts.append(np.diff(part.offsets))
        bound = bound + part.bound if part.own else max(bound, part.bound)
    return Blocks(
        ids=np.concatenate(ids),
        offsets=offsets(np.concatenate(counts)),
        bound=bound,
        size=sizes[0],
        last_short=np.concatenate([part.last_short for part in known]),
        own=known[0].own,
        sample=_sample(known),
    )


def _sample(parts: Sequence[Blocks]) -> Sample | None:
    """All files of one workload are sampled alike, or none is."""
    samples = [part.sample for part in parts if part.sample is not None]
    if not samples:
        return None
    return Sample(
        rate=samples[0].rate,
        counts=np.concatenate([one.counts for one in samples]),
        last_short=np.concatenate([one.last_short for one in samples]),
        occurring=_added([one.occurring for one in samples]) if all(part.own for part in parts) else None,
    )


def _added(counts: Sequence[Ints | None]) -> Ints | None:
    known = [count for count in counts if count is not None]
    if len(known) < len(counts):
        return None
    found = np.zeros(max(map(len, known)), dtype=np.int64)
    for count in known:
        found[: len(count)] += count
    return found
