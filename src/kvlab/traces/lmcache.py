"""LMCache's log of lookups (lookup_hashes_*.jsonl): the hashes of a prompt's whole chunks, and its length.

https://github.com/LMCache/LMCache, lmcache/v1/mp_observability/subscribers/logging/lookup_hash.py.
"""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.trace import Reading, Trace, TraceReader
from kvlab.traces._rows import MOST_BLOCKS, Length, Moment, Rows, blocks_of, json_rows, keys


class _Row(msgspec.Struct):
    timestamp: Moment
    seq_len: Length
    chunk_hashes: list[str]
    chunk_size: Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]
    model_name: str = ""


def _read(path: Path, reading: Reading) -> Trace:
    rows = Rows(path)
    ids: list[int] = []
    counts: list[int] = []
    sizes: set[int] = set()
    for where, row in json_rows(path, _Row, rows):
        if len(row.chunk_hashes) * row.chunk_size > row.seq_len:
            rows.leave_out(where, "its chunks hold more tokens than its prompt")
        elif len(set(row.chunk_hashes)) != len(row.chunk_hashes):
            rows.leave_out(where, "a chunk is there twice, which a prefix cannot be")
        else:
            sizes.add(row.chunk_size)
            rows.add(row.timestamp, row.seq_len, 0)
            ids += [_id(row.model_name, chunk, reading.salt) for chunk in row.chunk_hashes]
            counts.append(len(row.chunk_hashes))
            if len(ids) > MOST_BLOCKS:
                raise BadInput(f"{path} names more than {MOST_BLOCKS:,} chunks by {where}; give a part of it")
    trace = rows.trace("lmcache", 1.0)
    if len(sizes) > 1:
        raise BadInput(f"{path} has chunks of {' and '.join(map(str, sorted(sizes)))} tokens; give one size at a time")
    return trace._replace(outputs=None, blocks=blocks_of(ids, counts, sizes.pop(), trace.inputs))


def _id(model: str, chunk: str, salt: bytes) -> int:
    """A chunk's id: two models share no cache."""
    digest = blake2b(f"{model}\n{chunk}".encode("utf-8", "replace"), digest_size=8, key=salt).digest()
    return int.from_bytes(digest) & ((1 << 62) - 1)


READER = TraceReader("LMCache lookup logs", lambda head: {"chunk_hashes", "seq_len", "chunk_size"} <= keys(head), _read)
