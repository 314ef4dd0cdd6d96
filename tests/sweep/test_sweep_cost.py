"""Dollars per million tokens against figures worked out elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.cost import per_million, ways
from kvlab.core.sweep import Estimate, Slice


@pytest.mark.parametrize(("tokens_per_second", "dollars"), [(2000.0, "0.42"), (500.0, "1.67")])
def test_three_dollars_an_hour(tokens_per_second: float, dollars: str) -> None:
    """3 $/h is 0.42 $ per million output tokens at 2,000 tokens a second, and 1.67 $ at 500."""
    found = per_million(3.0, Estimate(tokens_per_second))
    assert found is not None
    assert f"{found.value:.2f}" == dollars


def test_more_tokens_are_cheaper_so_the_ends_change_places() -> None:
    found = per_million(3.6, Estimate(1000.0, 500.0, 2000.0))  # 3.6 $/h at 1,000 tok/s is a dollar per million
    assert found == Estimate(pytest.approx(1.0), pytest.approx(0.5), pytest.approx(2.0))  # type: ignore[arg-type]


def test_nothing_made_has_no_price() -> None:
    assert per_million(3.0, Estimate(0.0)) is None
    assert per_million(3.0, None) is None


def parts(output: float, read: float | None, count: int = 10) -> list[Slice]:
    inputs = None if read is None else read * 2
    return [Slice(seconds=2.0, output_tokens=output * 2, input_tokens=inputs, completed=1.0)] * count


def test_the_two_ways_of_a_server_that_reads_four_times_what_it_writes() -> None:
    """3.6 $/h, 4,000 tok/s in and 1,000 out. Alone: 1 $ out or 0.25 $ in. Every token alike: 5,000 tok/s, 0.2 $ each.

    With output at 4 times the price: 8,000 units a second, 0.125 $ in and 0.5 $ out.
    """
    alone, shared = ways(3.6, parts(1000, 4000), 1.0)
    assert alone.per_million_output is not None
    assert alone.per_million_input is not None
    assert (alone.per_million_output.value, alone.per_million_input.value) == pytest.approx((1.0, 0.25))
    assert shared.per_million_output == shared.per_million_input
    assert shared.per_million_input is not None
    assert shared.per_million_input.value == pytest.approx(0.2)
    weighted = ways(3.6, parts(1000, 4000), 4.0)[1]
    assert weighted.per_million_output is not None
    assert weighted.per_million_input is not None
    assert (weighted.per_million_output.value, weighted.per_million_input.value) == pytest.approx((0.5, 0.125))


@given(st.floats(0.1, 100), st.floats(1, 1e5), st.floats(1, 1e5), st.floats(0.1, 50))
def test_what_is_shared_adds_up_to_the_price(price: float, output: float, read: float, weight: float) -> None:
    shared = ways(price, parts(output, read), weight)[1]
    assert shared.per_million_output is not None
    assert shared.per_million_input is not None
    income = output * shared.per_million_output.value + read * shared.per_million_input.value
    assert income * 3600 / 1e6 == pytest.approx(price)


def test_prompts_that_were_not_counted_have_no_price() -> None:
    alone, shared = ways(3.0, parts(1000, None), 1.0)
    assert alone.per_million_output is not None
    assert alone.per_million_input is None
    assert (shared.per_million_output, shared.per_million_input) == (None, None)
