"""Traces of lengths and block ids (`hash_ids`), of which no row states how many tokens a block holds."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.trace import MOST_SHOWN, BadRow, LeftOutRows, Trace
from kvlab.traces._rows import MOST_BLOCKS, Length, Moment, Rows, blocks_of

_NEARLY_ALL = 0.99
_SIZES = (512, 16, 1, 2, 4, 8, 32, 64, 128, 256, 1024)
"""Block sizes that are tried, the published ones first."""


class HashedRow(msgspec.Struct):
    """A request in Mooncake's columns, or in Bailian's, which have a `chat_id`."""

    timestamp: Moment
    input_length: Length
    output_length: Length
    hash_ids: list[Annotated[int, msgspec.Meta(ge=0, lt=2**63 - 1)]]
    chat_id: int | None = None


def hashed(path: Path, form: str, rows: Rows, found: Iterable[tuple[str, HashedRow]]) -> Trace:
    """The trace of what is found, as (where, row). Raises BadInput where no block size agrees with it."""
    ids = array("q")
    counts: list[int] = []
    seconds = 1e-3
    for where, row in found:
        if len(set(row.hash_ids)) != len(row.hash_ids):
            rows.leave_out(where, "a block id is there twice, which a prefix cannot be")
        else:
            seconds = 1.0 if row.chat_id is not None else seconds
            rows.add(row.timestamp, row.input_length, row.output_length)
            ids.extend(row.hash_ids)
            counts.append(len(row.hash_ids))
            if len(ids) > MOST_BLOCKS:
                raise BadInput(f"{path} names more than {MOST_BLOCKS:,} blocks by {where}; give a part of it")
    trace = rows.trace(form, seconds)
    sizes = _block_sizes(trace, counts)
    if not sizes:
        raise BadInput(
            f"{path}: no block size from {min(_SIZES)} to {max(_SIZES)} tokens agrees with its lengths and ids"
        )
    doubts: tuple[Doubt, ...] = ()
    if len(sizes) > 1:
        others = ", ".join(map(str, sizes[1:]))
        text = f"blocks are taken to hold {sizes[0]} tokens; {others} would agree with these lengths too"
        doubts = (Doubt("block size", text),)
    return _without_overlong(trace._replace(blocks=blocks_of(ids, counts, sizes[0], trace.inputs), doubts=doubts))


def _without_overlong(trace: Trace) -> Trace:
    """The trace without requests of more blocks than their prompt fills: they would hit more tokens than they have."""
    import numpy as np

    blocks = trace.blocks
    assert blocks is not None
    assert trace.outputs is not None
    assert trace.arrivals is not None
    have = np.diff(blocks.offsets)
    good = have <= -(-trace.inputs // blocks.size)
    if good.all():
        return trace
    bad = tuple(
        BadRow(f"request {at + 1:,}", f"{have[at]:,} blocks of {blocks.size} tokens for {trace.inputs[at]:,} tokens")
        for at in np.flatnonzero(~good)[:MOST_SHOWN]
    )
    left_out = LeftOutRows(
        count=trace.left_out.count + int((~good).sum()), first=(*trace.left_out.first, *bad)[:MOST_SHOWN]
    )
    kept = blocks_of(blocks.ids[np.repeat(good, have)], have[good], blocks.size, trace.inputs[good])
    return trace._replace(
        inputs=trace.inputs[good],
        outputs=trace.outputs[good],
        arrivals=trace.arrivals[good],
        blocks=kept,
        left_out=left_out,
    )


def _block_sizes(trace: Trace, counts: list[int]) -> list[int]:
    """Sizes with which a prompt of n tokens has ceil(n / size) blocks, or floor where partial ones are left out.

    A few rows that disagree are no reason to refuse the rest, if one size agrees with nearly all.
    """
    import numpy as np

    have = np.asarray(counts)
    agree = {
        size: max((have == -(-trace.inputs // size)).mean(), (have == trace.inputs // size).mean()) for size in _SIZES
    }
    return [size for size in _SIZES if agree[size] == 1] or [size for size in _SIZES if agree[size] > _NEARLY_ALL]
