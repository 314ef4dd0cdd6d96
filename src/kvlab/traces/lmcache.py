"""LMCache's log of lookups (lookup_hashes_*.jsonl): the hashes of a prompt's whole chunks, and its length.

https://github.com/LMCache/LMCache, lmcache/v1/mp_observability/subscribers/logging/lookup_hash.py: what `lmcache server
--lookup-hash-log-dir DIR` writes, the same from 0.4.4, where it came, to 0.5.6. A hash stands for its chunk and all
before it. A prompt below one chunk is not logged; a request that is looked up again, as after a preemption, is, with
what it had generated. Cache salts are not in it: what two tenants must not share counts as shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.trace import Reading, Trace, TraceReader
from kvlab.traces._rows import MOST_BLOCKS, Length, Moment, Rows, blocks_of, filled_lines, json_rows, keys

_LOOKUPS = frozenset({"chunk_hashes", "seq_len", "chunk_size"})
_FEWER = frozenset({"timestamp", "chunk_hashes"})
"""Of LMCache's other logs of chunks: those of chunk_statistics_strategy file_hash, and older ones."""


class _Row(msgspec.Struct):
    timestamp: Moment
    seq_len: Length
    chunk_hashes: list[str]
    chunk_size: Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]
    model_name: str = ""
    request_id: str = ""


def _recognises(head: str) -> bool:
    found = keys(head)
    return found >= _LOOKUPS or found >= _FEWER


def _read(path: Path, reading: Reading) -> Trace:
    rows = Rows(path)
    ids: list[int] = []
    counts: list[int] = []
    sizes: set[int] = set()
    asked: set[str] = set()
    again = 0
    for where, row in json_rows(path, _Row, rows):
        if len(row.chunk_hashes) * row.chunk_size > row.seq_len:
            rows.leave_out(where, "its chunks hold more tokens than its prompt")
        elif len(set(row.chunk_hashes)) != len(row.chunk_hashes):
            rows.leave_out(where, "a chunk is there twice, which a prefix cannot be")
        else:
            sizes.add(row.chunk_size)
            again += bool(row.request_id) and row.request_id in asked
            asked.add(row.request_id)
            rows.add(row.timestamp, row.seq_len, 0)
            ids += [_id(row.model_name, chunk, reading.salt) for chunk in row.chunk_hashes]
            counts.append(len(row.chunk_hashes))
            if len(ids) > MOST_BLOCKS:
                raise BadInput(f"{path} names more than {MOST_BLOCKS:,} chunks by {where}; give a part of it")
    if not sizes:
        _refuse_fewer(path)
    trace = rows.trace("lmcache", 1.0)
    if len(sizes) > 1:
        raise BadInput(f"{path} has chunks of {' and '.join(map(str, sorted(sizes)))} tokens; give one size at a time")
    size = sizes.pop()
    blocks = blocks_of(ids, counts, size, trace.inputs)
    return trace._replace(outputs=None, blocks=blocks, doubts=tuple(_doubts(size, again)))


def _doubts(size: int, again: int) -> Iterator[Doubt]:
    yield Doubt("lengths", f"LMCache logs no prompt below one chunk ({size:,} tokens): short requests are not in here")
    if again:
        text = f"{again:,} lookups are of a request that was looked up before (after a preemption, say)"
        yield Doubt("lookups", f"{text}; each counts as a request, as in LMCache's own simulator")


def _refuse_fewer(path: Path) -> None:
    """Raises BadInput for a log of chunks that states neither lengths nor the size of a chunk."""
    first = next((line for _, line in filled_lines(path) if isinstance(line, bytes)), b"")
    found = keys(first.decode("utf-8", "replace"))
    if found >= _FEWER and not {"seq_len", "chunk_size"} & found:
        do = "give the lookup_hashes_*.jsonl that lmcache server --lookup-hash-log-dir DIR writes"
        raise BadInput(f"{path} is a log of LMCache's chunks without lengths and the size of a chunk; {do}")


def _id(model: str, chunk: str, salt: bytes) -> int:
    """A chunk's id: two models share no cache."""
    digest = blake2b(f"{model}\n{chunk}".encode("utf-8", "replace"), digest_size=8, key=salt).digest()
    return int.from_bytes(digest) & ((1 << 62) - 1)


READER = TraceReader("LMCache lookup logs", _recognises, _read)
