"""Percentiles and waste of published traces, as separate programs computed them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab import traces
from kvlab.core.errors import BadInput
from kvlab.core.trace import Trace
from kvlab.core.traffic import Lengths
from kvlab.traces._csv import _by_minute
from kvlab.workload.lengths import Column, _pages, _product, lengths, limit, paging

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"


@pytest.fixture(scope="module")
def azure() -> Trace:
    return traces.read(GOLDEN / "azure_conv.csv.gz")


def rounded(found: Lengths) -> tuple[int, ...]:
    return tuple(
        round(value) for value in (found.mean, found.p50, found.p90, found.p95, found.p99, found.p999, found.max)
    )


def test_percentiles_of_azures_conversations(azure: Trace) -> None:
    assert azure.outputs is not None
    assert rounded(lengths(Column(azure.inputs))) == (1155, 1020, 2734, 4083, 4142, 6179, 14050)
    found = lengths(Column(azure.outputs))
    assert (round(found.mean), found.p50, found.p99, found.max) == (211, 129, 601, 1000)
    total = lengths(Column(azure.inputs + azure.outputs))
    assert (total.p50, total.p99, round(total.p999), total.max) == (1412, 4259, 6301, 14089)


def test_the_limit_at_p99_cuts_155_of_azures_conversations(azure: Trace) -> None:
    assert azure.outputs is not None
    found = limit(Column(azure.inputs + azure.outputs), 99)
    assert (found.recommended, found.truncated) == (4352, 155)
    assert found.truncated_share == pytest.approx(155 / 19_366)
    assert found.holds_all is not None
    assert found.holds_all - 256 < int((azure.inputs + azure.outputs).max()) <= found.holds_all
    with pytest.raises(BadInput, match="at most 100"):
        limit(Column(azure.inputs), 101)


def test_waste_of_azures_conversations(azure: Trace) -> None:
    assert azure.outputs is not None
    prompts, answers, ends = (Column(tokens) for tokens in (azure.inputs, azure.outputs, azure.inputs + azure.outputs))
    found = {line.scheme: line.waste for line in paging(prompts, answers, ends, 16_384)}
    assert {name: round(waste, 4) for name, waste in found.items()} == {
        "max (16,384 tokens)": 0.9251,
        "pow2": 0.1845,
        "oracle": 0.1203,
        "pages of 16": 0.0061,
        "pages of 32": 0.0125,
        "pages of 64": 0.0250,
        "pages of 128": 0.0494,
        "pages of 256": 0.0922,
        "pages of 512": 0.1637,
    }


def test_arrivals_of_both_clocks(azure: Trace) -> None:
    assert azure.arrivals is not None
    assert len(azure.inputs) / np.ptp(azure.arrivals) == pytest.approx(5.53, abs=0.005)
    mooncake = traces.read(GOLDEN / "mooncake_conversation_trace.jsonl.gz")
    assert mooncake.arrivals is not None
    assert len(mooncake.inputs) / np.ptp(mooncake.arrivals) == pytest.approx(3.40, abs=0.005)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=20), st.sampled_from([1, 3, 16])
)
def test_pages_cost_what_counting_them_step_by_step_does(rows: list[tuple[int, int]], size: int) -> None:
    inputs, ends = (np.array(column, dtype=np.int64) for column in zip(*((i, i + o) for i, o in rows), strict=True))
    stepped = sum(-(-(i + k) // size) * size for i, o in rows for k in range(1, o + 1))
    assert Column(ends).total(_pages(size)) - Column(inputs).total(_pages(size)) == stepped


moments = st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1))


@st.composite
def clocks(draw: st.DrawFn) -> list[tuple[str, float | None]]:
    """Rows of a log that share their minutes: what is written, and the seconds since 1970 that it says."""
    rows: list[tuple[str, float | None]] = []
    for minute in draw(st.lists(moments, min_size=1, max_size=4)):
        for micros in draw(st.lists(st.integers(0, 59_999_999), min_size=1, max_size=8)):
            moment = minute.replace(second=0, microsecond=0) + timedelta(microseconds=micros)
            text = f"{moment:%Y-%m-%d %H:%M:%S.%f}"
            rows.append((text, (moment - datetime(1970, 1, 1)) / timedelta(seconds=1)))
    odd: list[tuple[str, float | None]] = [
        ("", None),
        ("2023-11-16 18:17:61", None),
        ("2023-11-16 18:17:-3", None),
        ("2023-11-16 18:1x:03", None),
    ]
    odd += [("2023-11-16 18:17:03", 1700158623.0), ("2023-11-16 18:17:nan", None), ("9999-01-01 00:00:00", None)]
    odd += [("2023-1-6 8:07:3", 1672992423.0)]
    for one in draw(st.lists(st.sampled_from(odd), max_size=2)):
        rows.insert(draw(st.integers(0, len(rows))), one)
    return rows


@given(clocks())
def test_times_are_read_by_the_minute_as_they_are_written(rows: list[tuple[str, float | None]]) -> None:
    found = _by_minute(pl.Series([text for text, _ in rows], dtype=pl.String), "%Y-%m-%d %H:%M:%S%.f").to_list()
    assert [None if seconds is None else round(seconds, 3) for seconds in found] == [
        None if seconds is None else pytest.approx(seconds, abs=2e-3) for _, seconds in rows
    ]


@given(st.lists(st.integers(0, 1 << 26), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_are_numpys(tokens: list[int], percent: float) -> None:
    column = np.array(tokens, dtype=np.int64)
    assert Column(column).percentile(percent) == pytest.approx(float(np.percentile(column, percent)), abs=1e-6)


@pytest.mark.parametrize("longest", [1 << 10, 1 << 30])
def test_sums_of_products_are_exact_however_large(longest: int) -> None:
    one, two = np.array([longest, longest, 3], dtype=np.int64), np.array([longest, longest - 1, 5], dtype=np.int64)
    rows = [np.tile(column, 9) for column in (one, two)]
    assert _product(*(Column(row) for row in rows)) == 9 * (longest * longest + longest * (longest - 1) + 15)
