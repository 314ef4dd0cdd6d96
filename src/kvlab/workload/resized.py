"""The blocks of a trace in another size: each split into parts, or several taken as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvlab.core.columns import offsets, places
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.workload.reuse import numbered

if TYPE_CHECKING:
    from kvlab.core.trace import Blocks, Ints, Trace

_MOST = 1 << 29
"""References to blocks: what they are counted with takes some tens of bytes each."""


def resized(trace: Trace, size: int | None) -> Trace:
    """The trace in whole blocks of `size` tokens; as it is where None, or where its blocks have that size.

    Raises BadInput for a size that neither divides that of the trace nor is a multiple of it, for one that makes too
    many blocks, and for a sample.
    """
    blocks = trace.blocks
    if size is None or blocks is None or blocks.size == size:
        return trace
    if blocks.sample is not None:
        raise BadInput(f"--block-size {size} is not the trace's {blocks.size}: that needs every block, so no --sample")
    if blocks.size % size and size % blocks.size:
        raise BadInput(f"--block-size {size:,} must divide the {blocks.size:,} tokens of the trace's, or be a multiple")
    full = trace.inputs // size
    have = np.diff(blocks.offsets)
    if size < blocks.size:
        parts = blocks.size // size
        counts = np.minimum(full, have * parts)
        if int(counts.sum()) > _MOST:
            raise BadInput(f"--block-size {size:,} makes more than {_MOST:,} references to blocks; give a larger one")
        made = _split(numbered(blocks)[0], counts, parts)
        text = (
            f"the trace's blocks of {blocks.size} tokens are split into {size}: what prompts share of a block that they"
            " do not share whole is not known, so an endless cache hits no less than this"
        )
    else:
        group = size // blocks.size
        counts = np.minimum(full, have // group)
        at = places(blocks.offsets[:-1], counts * group)[group - 1 :: group]
        made = blocks._replace(ids=blocks.ids[at])
        text = f"{group:,} of the trace's blocks of {blocks.size} tokens are taken as one of {size:,}"
    made = made._replace(offsets=offsets(counts), size=size, last_short=np.zeros_like(counts))
    return trace._replace(blocks=made, doubts=(*trace.doubts, Doubt("block size", text)))


def _split(blocks: Blocks, counts: Ints, parts: int) -> Blocks:
    """Block j of id x becomes x * parts + j; the first `counts` of each request."""
    bound = blocks.bound * parts
    at = places(blocks.offsets[:-1] * parts, counts)
    ids: Ints = blocks.ids[at // parts].astype(np.int64)
    ids *= parts
    ids += at % parts
    return blocks._replace(ids=ids.astype(np.int32) if bound < 1 << 31 else ids, bound=bound)
