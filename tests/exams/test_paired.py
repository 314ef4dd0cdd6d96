"""McNemar's test and Tango's interval against published numbers and against the likelihood itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binomtest

from kvlab.core.paired import Pairs, accuracy_change, items_to_settle, mcnemar, pairs, side

# Complete response before and after consolidation therapy (Cavo et al. 2012): 59 both, 6 before only, 16 after only,
# 80 neither. Worked through in Fagerland, Lydersen and Laake, "Statistical Analysis of Contingency Tables" (2017),
# chapter 8; the digits are those of the authors' R package contingencytables, tests/testthat/test-ch8.R.
CAVO = Pairs(both=59, only_a=16, only_b=6, neither=80)
COUNTS = st.tuples(*[st.integers(0, 60)] * 4).filter(any).map(lambda counts: Pairs(*counts))


def test_a_published_table_has_its_published_numbers() -> None:
    change = accuracy_change(CAVO)
    assert mcnemar(CAVO) == pytest.approx(0.052479, abs=5e-7)
    assert (change.value, change.low, change.high) == pytest.approx((-0.0621, -0.1240, -0.0054), abs=5e-5)


@given(COUNTS)
def test_mcnemar_is_the_binomial_test_of_the_items_that_part(found: Pairs) -> None:
    part = found.only_a + found.only_b
    assume(part)
    assert mcnemar(found) == pytest.approx(binomtest(found.only_a, part).pvalue, abs=1e-9)


def test_mcnemar_of_arms_that_never_part_is_one() -> None:
    assert mcnemar(Pairs(3, 0, 0, 4)) == 1


@given(COUNTS)
def test_the_score_at_the_limits_is_the_normal_quantile(found: Pairs) -> None:
    """The score from a likelihood that is maximised by search, instead of by Tango's closed form."""
    change = accuracy_change(found)
    assert change.low <= change.value <= change.high
    for limit, sign in ((change.low, 1), (change.high, -1)):
        if -0.9999 < limit < 0.9999:
            assert _score(found, limit) == pytest.approx(sign * 1.959964, abs=2e-3)


def _score(found: Pairs, change: float) -> float:
    """Distance from a true difference of `change` in standard errors, with the likeliest share of only-A items."""
    least, most = max(0.0, -change), (1 - change) / 2

    def unlikely(only_a: float) -> float:
        shares = (only_a, only_a + change, 1 - 2 * only_a - change)
        counts = (found.only_a, found.only_b, found.both + found.neither)
        if min(shares) <= 0:
            return math.inf if any(n and p <= 0 for n, p in zip(counts, shares, strict=True)) else 0.0
        return -sum(n * math.log(p) for n, p in zip(counts, shares, strict=True) if n)

    only_a = minimize_scalar(unlikely, bounds=(least, most), method="bounded", options={"xatol": 1e-13}).x
    variance = found.items * (2 * only_a + change - change**2)
    return float((found.only_b - found.only_a - found.items * change) / math.sqrt(variance))


@given(COUNTS)
def test_the_other_way_round_is_the_mirror_image(found: Pairs) -> None:
    change = accuracy_change(found)
    turned = accuracy_change(found._replace(only_a=found.only_b, only_b=found.only_a))
    assert (turned.low, turned.high) == pytest.approx((-change.high, -change.low), abs=1e-9)


def test_arms_that_never_part_need_381_items_for_one_point() -> None:
    """The interval then reaches z^2 / (n + z^2), which is below 0.01 from n = 380.3 on."""
    assert items_to_settle(Pairs(40, 0, 0, 60), 0.01) == 381
    assert side(accuracy_change(Pairs(200, 0, 0, 181)), 0.01) == "within"
    assert side(accuracy_change(Pairs(200, 0, 0, 180)), 0.01) is None


@given(COUNTS, st.sampled_from([0.01, 0.05]))
def test_the_items_said_to_settle_do(found: Pairs, margin: float) -> None:
    needed = items_to_settle(found, margin)
    assume(needed is not None and side(accuracy_change(found), margin) is None)
    assert needed is not None
    assert needed > found.items
    more = [count * 1.02 * needed / found.items for count in found]
    assert side(accuracy_change(Pairs(*(round(1000 * count) for count in more))), margin) is not None


def test_a_change_at_the_margin_is_never_settled() -> None:
    assert items_to_settle(Pairs(50, 1, 0, 49), 0.01) is None


def test_marks_are_counted_by_who_was_right() -> None:
    marks = [(True, True)] * 4 + [(True, False)] * 3 + [(False, True)] * 2 + [(False, False)]
    assert pairs(marks) == Pairs(both=4, only_a=3, only_b=2, neither=1)


def test_no_item_has_no_interval() -> None:
    with pytest.raises(ValueError, match="no item"):
        accuracy_change(Pairs(0, 0, 0, 0))
