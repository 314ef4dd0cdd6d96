"""What the readers of traces share: rows that are kept, rows that are left out, and blocks as columns."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec

from kvlab.core.columns import backwards, offsets
from kvlab.core.errors import BadInput
from kvlab.core.trace import MOST_SHOWN, BadRow, Blocks, LeftOutRows, Trace, Unusable, in_order
from kvlab.traces._lines import lines

if TYPE_CHECKING:
    from kvlab.core.trace import Ids, Ints

T = TypeVar("T")
LONGEST = 16 << 20
"""Bytes of a line: a longer one is left out, not kept in memory."""
TOO_LONG = f"longer than {LONGEST >> 20} MiB"
MOST_TOKENS = 1 << 30
"""Tokens of a prompt or an answer: a larger number is damage, and sums of its square would not be exact."""
MOST_BLOCKS = 1 << 29
"""Block references of a trace: what they are counted with takes some tens of bytes each."""
_BOM = b"\xef\xbb\xbf"

Length = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]
"""Tokens of a prompt or an answer."""
Moment = Annotated[float, msgspec.Meta(ge=-1e19, le=1e19)]
"""A time: nanoseconds since 1970 fit into it."""


_KEY = re.compile(r'"([\w@.-]{1,40})"\s*:')


def keys(head: str) -> set[str]:
    """Keys of the JSON object in the first line; of all depths where the line is longer than what was read of it."""
    line = head.lstrip().partition("\n")[0]
    if not line.startswith("{"):
        return set()
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return set(_KEY.findall(line))
    return set(row) if isinstance(row, dict) else set()


class Rows:
    """Requests as they are read, and what was left out of the file at `path`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._times = array("d")
        self._services = array("d")
        self._inputs = array("q")
        self._outputs = array("q")
        self._left_out = 0
        self._first: list[BadRow] = []

    def add(self, time: float, inputs: int, outputs: int, service: float | None = None) -> None:
        """A request that can be used; `service`: how long it took, in the unit of `time`."""
        self._times.append(time)
        self._services.append(float("nan") if service is None else service)
        self._inputs.append(inputs)
        self._outputs.append(outputs)

    def leave_out(self, where: str, why: str) -> None:
        """A row that cannot."""
        self._left_out += 1
        if len(self._first) < MOST_SHOWN:
            self._first.append(BadRow(where, why))

    def trace(self, form: str, seconds: float) -> Trace:
        """The columns; `seconds`: length of the unit of the times. Raises BadInput when no row could be used."""
        import numpy as np

        left_out = LeftOutRows(count=self._left_out, first=tuple(self._first))
        if not self._inputs:
            raise BadInput(no_row(self._path, left_out))
        times = np.frombuffer(self._times, dtype=np.float64) * seconds
        services = np.frombuffer(self._services, dtype=np.float64) * seconds
        jumps, first = backwards(times)
        return Trace(
            format=form,
            inputs=np.frombuffer(self._inputs, dtype=np.int64),
            outputs=np.frombuffer(self._outputs, dtype=np.int64),
            arrivals=times,
            services=services if (services >= 0).all() else None,
            blocks=None,
            left_out=left_out,
            clock_jumps=jumps,
            first_jump=first,
        )


def no_row(path: Path, left_out: LeftOutRows) -> str:
    """That no row of the file can be used, and why the first of them cannot."""
    why = f" (the first: {left_out.first[0].where}, {left_out.first[0].why})" if left_out.first else ""
    return f"{path} holds no row that can be used, of {left_out.count:,}{why}"


def json_rows(path: Path, kind: type[T], rows: Rows) -> Iterator[tuple[str, T]]:
    """The lines of a JSON-lines file as (where, row); lines that are no such row are left out."""
    decoder = msgspec.json.Decoder(kind)
    for where, line in filled_lines(path):
        if isinstance(line, Unusable):
            rows.leave_out(where, str(line))
            continue
        try:
            yield where, decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
            rows.leave_out(where, str(problem)[:120])


def filled_lines(path: Path) -> Iterator[tuple[str, bytes | Unusable]]:
    """(where, line) of the lines that are not empty; an Unusable stands for one that is too long."""
    for number, line in lines(path, LONGEST):
        where = f"line {number:,}"
        if len(line) > LONGEST:
            yield where, Unusable(TOO_LONG)
            continue
        line = line.removeprefix(_BOM) if number == 1 else line
        if line.strip():
            yield where, line


def blocks_of(ids: Sequence[int] | array[int] | Ids, counts: Sequence[int] | Ints, size: int, inputs: Ints) -> Blocks:
    """Blocks as columns."""
    import numpy as np

    flat, have = np.asarray(ids, dtype=np.int64), np.asarray(counts, dtype=np.int64)
    bound = int(flat.max()) + 1 if flat.size else 0
    return Blocks(
        ids=flat.astype(np.int32) if bound < 2**31 else flat,
        offsets=offsets(have),
        bound=bound,
        size=size,
        last_short=np.clip(have * size - inputs, 0, size - 1),
    )


def by_time(trace: Trace) -> Trace:
    """The requests as they came, where the file lists them as they ended."""
    import numpy as np

    if trace.arrivals is None:
        return trace
    order = np.argsort(trace.arrivals, kind="stable")
    return in_order(trace, order)._replace(clock_jumps=0, first_jump=0)
