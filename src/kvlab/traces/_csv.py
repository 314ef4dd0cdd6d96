"""Traces as CSV: a time if there is one, prompt tokens, answer tokens."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.core.columns import backwards
from kvlab.core.errors import BadInput, shortened
from kvlab.core.trace import MOST_SHOWN, BadRow, LeftOutRows, Trace
from kvlab.traces._lines import compressed, lines, opened
from kvlab.traces._rows import MOST_TOKENS

if TYPE_CHECKING:
    import polars as pl

_LOOK = 1000
_MINUTE = len("2023-11-16 18:15:")
_AROUND = ' \t\r"'
"""Characters around a cell that are not of it."""
_HEADER = 1 << 16
_MOST_UNPACKED = 2 << 30
"""Bytes of a compressed file once it is unpacked, which is done in memory."""


def header(head: str) -> set[str]:
    """Column names of a CSV file that begins with this line."""
    return set(_columns(head))


def _columns(head: str) -> list[str]:
    line = head.removeprefix("\ufeff").partition("\n")[0]
    return [name.strip().strip('"') for name in line.split(",")]


def read(path: Path, form: str, *, inputs: str, outputs: str, time: str | None) -> Trace:
    """The columns of that name; rows without two whole numbers of at least 0, or without their time, are left out.

    `time` holds seconds, or a date and time. Raises BadInput when no row can be used.
    """
    import polars as pl

    table = _table(path, [inputs, outputs, *([time] if time else [])])
    counts = [_whole_numbers(table[name]) for name in (inputs, outputs)]
    table = table.select(*counts, *([_seconds(table[time]).alias("time")] if time else []))
    believable = [pl.col(name).is_between(0, MOST_TOKENS) for name in (inputs, outputs)]
    good = pl.all_horizontal(*believable, *([pl.col("time").is_between(-1e18, 1e18)] if time else []))
    table = table.with_row_index("row").with_columns(good.fill_null(value=False).alias("good"))
    bad = table.filter(~pl.col("good"))
    table = table.filter(pl.col("good"))
    first = tuple(BadRow(f"line {row + 2:,}", f"it lacks {_why(time)}") for row in bad["row"][:MOST_SHOWN])
    if not table.height:
        raise BadInput(f"{path} holds no row that can be used, of {bad.height:,}: {_why(time)} in none")
    arrivals = table["time"].to_numpy() if time else None
    jumps, first_jump = (0, 0) if arrivals is None else backwards(arrivals)
    return Trace(
        format=form,
        inputs=table[inputs].to_numpy(),
        outputs=table[outputs].to_numpy(),
        arrivals=arrivals,
        blocks=None,
        left_out=LeftOutRows(count=bad.height, first=first),
        clock_jumps=jumps,
        first_jump=first_jump,
    )


def _table(path: Path, names: list[str]) -> pl.DataFrame:
    """The named columns as text. Raises BadInput where there is no such table."""
    import polars as pl

    first = next((line for _, line in lines(path, _HEADER)), b"").decode("utf-8", "replace")
    have = _columns(first)
    missing = [name for name in names if name not in have]
    if missing:
        raise BadInput(f"{path} has no column {missing[0]!r}; its first line is {shortened(first.strip(), 80)!r}")
    at = [have.index(name) for name in names]
    source = _unpacked(path) if compressed(path) else path
    try:
        table = pl.read_csv(
            source,
            columns=at,
            infer_schema=False,
            truncate_ragged_lines=True,
            encoding="utf8-lossy",
            glob=False,
            quote_char=None,  # a quote that is never closed would take all rows after it
        )
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise BadInput(f"{path} cannot be read as CSV: {shortened(' '.join(str(problem).split()), 120)}") from None
    table = table.rename({name: name.strip(_AROUND) for name in table.columns})
    quoted = table.head(_LOOK).select(pl.any_horizontal(pl.all().str.contains('"').any())).item()
    return table.with_columns(pl.all().str.strip_chars(_AROUND)) if quoted else table


def _unpacked(path: Path) -> BytesIO:
    """The content of a compressed file. Raises BadInput when it is damaged, or larger than belongs into memory."""
    content = BytesIO()
    with opened(path) as file:
        try:
            while piece := file.read(1 << 20):
                content.write(piece)
                if content.tell() > _MOST_UNPACKED:
                    raise BadInput(f"{path} unpacks to more than {_MOST_UNPACKED:,} bytes; unpack it and give that")
        except (OSError, EOFError, ValueError) as problem:
            raise BadInput(f"{path} is damaged in its compression: {problem}; copy it again") from None
    content.seek(0)
    return content


def _why(time: str | None) -> str:
    return f"two lengths of 0 to {MOST_TOKENS:,}" + (f" and a {time}" if time else "")


def _whole_numbers(column: pl.Series) -> pl.Series:
    """The numbers; null for what is none. Only where there is such are blanks looked for."""
    import polars as pl

    found = column.cast(pl.Int64, strict=False)
    blank = found.null_count() > column.null_count()
    return column.str.strip_chars().cast(pl.Int64, strict=False) if blank else found


def _seconds(column: pl.Series) -> pl.Series:
    """Seconds of a column that holds numbers, or dates and times with or without an offset from UTC.

    The first rows tell which: trying every form on every row would cost more than all the rest.
    """
    import polars as pl

    look = column[:_LOOK].str.strip_chars()
    if look.cast(pl.Float64, strict=False).null_count() < len(look) / 2:
        return column.str.strip_chars().cast(pl.Float64, strict=False)
    offset = r"(Z|[+-]\d\d:?\d\d)$"
    text = column.str.replace(offset, "") if look.str.contains(offset).any() else column
    for pattern in ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"):
        tried = look.str.replace(offset, "").str.to_datetime(pattern, time_unit="ns", strict=False)
        if tried.null_count() < len(look) / 2:
            return _by_minute(text, pattern)
    return pl.Series([None] * len(column), dtype=pl.Float64)


def _by_minute(text: pl.Series, pattern: str) -> pl.Series:
    """`_dated` in a third of the time: rows that follow one another mostly share their minute, which is read once."""
    import numpy as np
    import polars as pl

    minute = text.str.slice(0, _MINUTE)
    begins = (minute != minute.shift(1)).fill_null(value=True).arg_true()
    if len(begins) > len(text) / 2:
        return _dated(text, pattern)
    seconds = text.str.slice(_MINUTE).cast(pl.Float64, strict=False).to_numpy()
    lengths = np.diff(np.append(begins.to_numpy(), len(text)))
    found = np.repeat(_dated(minute.gather(begins) + "00", pattern).to_numpy(), lengths)
    found += np.where((seconds >= 0) & (seconds < 60), seconds, np.nan)
    odd = np.flatnonzero(np.isnan(found))  # written otherwise: blanks around it, days of one digit
    found[odd] = _dated(text.gather(odd), pattern).to_numpy()
    return pl.Series(found).fill_nan(None)


def _dated(text: pl.Series, pattern: str) -> pl.Series:
    """Seconds since 1970; null for what is no such date and time."""
    import polars as pl

    seconds = text.str.to_datetime(pattern, time_unit="ns", strict=False).dt.epoch("ns").cast(pl.Float64) / 1e9
    # nanoseconds in 64 bits reach from 1678 to 2261, and wrap around silently beyond
    known = text.str.strip_chars().str.slice(0, 4).cast(pl.Int64, strict=False).is_between(1700, 2200)
    return seconds.set(~known.fill_null(value=False), None)
