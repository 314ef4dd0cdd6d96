"""Traces as CSV: a time if there is one, prompt tokens, answer tokens."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.core.errors import BadInput, shortened
from kvlab.core.trace import BadRow, LeftOutRows, Trace

if TYPE_CHECKING:
    import polars as pl

_SHOWN = 5
_LOOK = 1000


def header(head: str) -> set[str]:
    """Column names of a CSV file that begins with this line."""
    return {name.strip().strip('"') for name in head.partition("\n")[0].split(",")}


def read(path: Path, form: str, *, inputs: str, outputs: str, time: str | None) -> Trace:
    """The columns of that name; rows without two whole numbers of at least 0, or without their time, are left out.

    `time` holds seconds, or a date and time. Raises BadInput when no row can be used.
    """
    import polars as pl

    names = [inputs, outputs, *([time] if time else [])]
    try:
        table = pl.read_csv(path, columns=names, infer_schema=False, truncate_ragged_lines=True, encoding="utf8-lossy")
    except (pl.exceptions.PolarsError, OSError) as problem:
        raise BadInput(f"{path} cannot be read as CSV: {shortened(' '.join(str(problem).split()), 120)}") from None
    counts = [pl.col(name).str.strip_chars().cast(pl.Int64, strict=False).alias(name) for name in (inputs, outputs)]
    table = table.select(*counts, *([_seconds(table[time]).alias("time")] if time else []))
    good = pl.all_horizontal(pl.col(inputs) >= 0, pl.col(outputs) >= 0, *([pl.col("time").is_finite()] if time else []))
    table = table.with_row_index("row").with_columns(good.fill_null(value=False).alias("good"))
    bad = table.filter(~pl.col("good"))
    table = table.filter(pl.col("good"))
    first = tuple(BadRow(f"line {row + 2:,}", _why(time)) for row in bad["row"][:_SHOWN])
    if not table.height:
        raise BadInput(f"{path} holds no row that can be used, of {bad.height:,}: {_why(time)} in none")
    arrivals = table["time"].to_numpy() if time else None
    return Trace(
        format=form,
        inputs=table[inputs].to_numpy(),
        outputs=table[outputs].to_numpy(),
        arrivals=arrivals,
        blocks=None,
        left_out=LeftOutRows(count=bad.height, first=first),
        clock_jumps=0 if arrivals is None else int((arrivals[1:] < arrivals[:-1]).sum()),
    )


def _why(time: str | None) -> str:
    return "two lengths of at least 0" + (f" and a {time}" if time else "")


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
            return text.str.to_datetime(pattern, time_unit="ns", strict=False).dt.epoch("ns").cast(pl.Float64) / 1e9
    return pl.Series([None] * len(column), dtype=pl.Float64)
