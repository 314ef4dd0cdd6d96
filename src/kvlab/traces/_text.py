"""Request logs with text -> columns: tokens counted, prompts cut into blocks, blocks hashed in chain as vLLM does.

Only whole blocks count. A block's id is a keyed hash of the id before it and its tokens, so equal ids mean equal tokens
up to there, and nothing can be told of the text without the key, which is drawn anew for each run.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kvlab.core.columns import backwards, offsets, places
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.trace import (
    MOST_SHOWN,
    BadRow,
    Counted,
    LeftOutRows,
    Logged,
    Reading,
    TextFormat,
    Trace,
    TraceReader,
    Unusable,
)
from kvlab.traces._rows import MOST_BLOCKS, MOST_TOKENS, blocks_of, no_row
from kvlab.traces._tokens import Encoder, encoder

if TYPE_CHECKING:
    from kvlab.core.trace import Ints

ROWS_AT_ONCE = 64
"""Rows that one process takes before the next one's turn."""
LARGE = 4 << 20
"""Bytes of a file from which more processes than one read it: each one loads the tokenizer."""
_MASK = (1 << 62) - 1
_NOT_TOLD = -1


class Share(NamedTuple):
    """The rows that one of `of` processes takes."""

    at: int = 0
    of: int = 1


class Part(msgspec.Struct, kw_only=True):
    """What was read of a log: a number a request, and what was left out. It holds no text."""

    rows: array[int] = msgspec.field(default_factory=lambda: array("q"))
    times: array[float] = msgspec.field(default_factory=lambda: array("d"))
    services: array[float] = msgspec.field(default_factory=lambda: array("d"))
    inputs: array[int] = msgspec.field(default_factory=lambda: array("q"))
    outputs: array[int] = msgspec.field(default_factory=lambda: array("q"))
    counts: array[int] = msgspec.field(default_factory=lambda: array("q"))
    ids: array[int] = msgspec.field(default_factory=lambda: array("q"))
    left_out: int = 0
    first: list[tuple[int, str, str]] = []
    uncounted: int = 0
    """Requests of which only the log's own count of prompt tokens is known."""
    textless: int = 0
    """Those of them whose prompt is not in the file at all."""
    estimated: int = 0
    note: str | None = None
    """What the tokenizer takes for granted, once a chat was met."""
    disagree: int = 0
    """Requests whose prompt tokens, as counted here, are not those that the log states."""


def read(path: Path, form: TextFormat, reading: Reading) -> Trace:
    """The log's requests. Raises BadInput when none can be used, or their text needs a tokenizer that was not given."""
    from kvlab.traces import _processes

    how_many = _processes.wanted(path, reading)
    if reading.tokenizer is not None and how_many > 1:
        parts = _processes.parts(path, form, reading, how_many)
    else:
        parts = [part_of(path, form, reading, encoder(reading), Share())]
    return _trace(path, form, reading, parts)


def part_of(path: Path, form: TextFormat, reading: Reading, counting: Encoder | None, share: Share) -> Part:
    """One process's share of the rows."""
    part = Part()
    for at, (where, row) in enumerate(form.raw(path)):
        if at // ROWS_AT_ONCE % share.of != share.at:
            continue
        try:
            for logged in made(form, where, row):
                _add(part, at, logged, counting, reading)
        except Unusable as why:
            part.left_out += 1
            if len(part.first) < MOST_SHOWN:
                part.first.append((at, where, str(why)))
        if len(part.ids) > MOST_BLOCKS:
            raise BadInput(f"{path} names more than {MOST_BLOCKS:,} blocks by {where}; give a part of it")
    return part


def made(form: TextFormat, where: str, row: object) -> list[Logged]:
    """The requests of a row. Raises Unusable."""
    if isinstance(row, Unusable):
        raise row
    return form.requests(where, row)


def logged(path: Path, form: TextFormat, most: int | None = None) -> Iterator[Logged]:
    """The requests of the first `most` rows that can be used, with their text or token ids, in the file's order."""
    for where, row in islice(form.raw(path), most):
        try:
            yield from (one for one in made(form, where, row) if not _textless(one))
        except Unusable:
            continue


def _textless(request: Logged) -> bool:
    return request.ids is None and request.prompt is None and request.messages is None


def _add(part: Part, at: int, request: Logged, counting: Encoder | None, reading: Reading) -> None:
    textless = _textless(request)
    ids: Sequence[int] | None = request.ids if counting is None or textless else counting.encode(request)
    if request.messages is not None and counting is not None:
        part.note = counting.note
    if ids is None:
        if request.prompt_tokens is None:
            raise Unusable("it states no number of prompt tokens, and there is no tokenizer to count them")
        part.uncounted += 1
        part.textless += textless
    elif request.prompt_tokens not in (None, len(ids)):
        part.disagree += 1
    part.estimated += reading.estimate and reading.tokenizer is None and request.ids is None and not textless
    length = len(ids) if ids is not None else request.prompt_tokens or 0
    if length > MOST_TOKENS:
        raise Unusable(f"more than {MOST_TOKENS:,} tokens")
    hashes = chained(ids or [], reading.block_size, reading.salt)
    part.rows.append(at)
    part.times.append(request.time if request.time is not None else float("nan"))
    part.services.append(request.service if request.service is not None else float("nan"))
    part.inputs.append(length)
    part.outputs.append(_answer(request, counting))
    part.counts.append(len(hashes))
    part.ids.extend(hashes)


def _answer(request: Logged, counting: Encoder | None) -> int:
    if request.answer_tokens is not None:
        return request.answer_tokens
    return _NOT_TOLD if request.answer is None or counting is None else counting.count(request.answer)


def chained(ids: Sequence[int], size: int, salt: bytes) -> list[int]:
    """Ids of the whole blocks of a prompt: each a hash of the one before it and its tokens."""
    content = array("i", ids).tobytes()
    width = 4 * size
    parent, found = b"", []
    for at in range(0, len(content) - width + 1, width):
        parent = blake2b(parent + content[at : at + width], digest_size=16, key=salt).digest()
        found.append(int.from_bytes(parent[:8]) & _MASK)
    return found


def _trace(path: Path, form: TextFormat, reading: Reading, parts: list[Part]) -> Trace:
    import numpy as np

    rows, inputs, outputs, counts = (
        np.concatenate([np.frombuffer(getattr(part, name), dtype=np.int64) for part in parts])
        for name in ("rows", "inputs", "outputs", "counts")
    )
    times, services = (
        np.concatenate([np.frombuffer(getattr(part, name), dtype=np.float64) for part in parts])
        for name in ("times", "services")
    )
    bad = sorted(chain.from_iterable(part.first for part in parts))[:MOST_SHOWN]
    left_out = LeftOutRows(
        count=sum(part.left_out for part in parts), first=tuple(BadRow(where, why) for _, where, why in bad)
    )
    if not len(rows):
        _refuse(path, left_out, reading)
    order = np.argsort(rows, kind="stable")
    without = sum(part.uncounted for part in parts)
    clock = times[order] if not np.isnan(times).any() else None
    jumps, first_jump = (0, 0) if clock is None else backwards(clock)
    ordered = inputs[order]
    return Trace(
        format=form.name,
        inputs=ordered,
        outputs=outputs[order] if (outputs >= 0).all() else None,
        arrivals=clock,
        services=services[order] if (services >= 0).all() else None,
        blocks=None if without else blocks_of(_ids(parts, counts, order), counts[order], reading.block_size, ordered),
        left_out=left_out,
        clock_jumps=jumps,
        first_jump=first_jump,
        doubts=tuple(_doubts(parts, times, outputs)),
        counted=_counted(reading, parts),
    )


def _ids(parts: list[Part], counts: Ints, order: Ints) -> Ints:
    """Block ids of all parts in the order of their requests."""
    import numpy as np

    flat = np.concatenate([np.frombuffer(part.ids, dtype=np.int64) for part in parts])
    if (np.diff(order) == 1).all():
        return flat
    picked: Ints = flat[places(offsets(counts)[order], counts[order])]
    return picked


def _refuse(path: Path, left_out: LeftOutRows, reading: Reading) -> None:
    do = ""
    if reading.tokenizer is None and not reading.estimate and any("tokenizer" in row.why for row in left_out.first[:1]):
        do = "; give --tokenizer PATH or a Hub model, or --estimate-tokens"
    raise BadInput(no_row(path, left_out) + do)


def _counted(reading: Reading, parts: list[Part]) -> Counted:
    if any(part.estimated for part in parts):
        return "estimate"
    return "tokenizer" if reading.tokenizer is not None else "log"


def _doubts(parts: list[Part], times: object, outputs: object) -> Iterator[Doubt]:
    import numpy as np

    requests = sum(len(part.rows) for part in parts)
    if estimated := sum(part.estimated for part in parts):
        text = f"of {estimated:,} requests the tokens are an estimate (4 bytes of text each); give --tokenizer to count"
        yield Doubt("tokens", text)
    if note := next((part.note for part in parts if part.note), None):
        yield Doubt("chat template", note)
    if textless := sum(part.textless for part in parts):
        yield Doubt("reuse", f"of {textless:,} requests the prompt is not in the file, so reuse is not known")
    if uncounted := sum(part.uncounted for part in parts) - textless:
        text = f"of {uncounted:,} requests only the log's own count is known, so reuse is not"
        yield Doubt("reuse", f"{text}; give --tokenizer, or --estimate-tokens")
    if (odd := sum(part.disagree for part in parts)) and not estimated:
        text = f"of {odd:,} of {requests:,} requests the log states another number of prompt tokens than the tokenizer"
        yield Doubt("tokens", f"{text} counts: another model, or another chat template, served them")
    if untold := int((np.asarray(outputs) < 0).sum()):
        yield Doubt("answers", f"{untold:,} of {requests:,} requests do not tell how long their answer was")
    without = int(np.isnan(np.asarray(times)).sum())
    if 0 < without < requests:
        yield Doubt("time", f"{without:,} of {requests:,} requests have no time, so times are left out")


def format_of(name: str) -> TextFormat:
    """The text format in the reader's file of that name."""
    values = vars(import_module(f"kvlab.traces.{name}")).values()
    reader = next(value for value in values if isinstance(value, TraceReader))
    if reader.text is None:
        raise TypeError(f"kvlab.traces.{name} reads no text")
    return reader.text


def trace_reader(title: str, recognises: object, form: TextFormat) -> TraceReader:
    """A reader of a text format."""
    return TraceReader(title, recognises, lambda path, reading: read(path, form, reading), form)  # type: ignore[arg-type]
