"""How samples become words: names by age, label sets, pools, and histograms that are none."""

from __future__ import annotations

import math
from time import perf_counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.exposition import rows
from kvlab.core.scrape import Histogram
from kvlab.core.series import Across, Names, Series, by_pool

INF = math.inf
# request_duration_seconds of Prometheus' promql/promqltest/testdata/histograms.test, after ten steps
DURATIONS = "".join(
    f'request_duration_seconds_bucket{{job="{job}",instance="{instance}",le="{le}"}} {count}\n'
    for job, instance, counts in (
        ("job1", "ins1", (10, 30, 40)),
        ("job1", "ins2", (20, 50, 60)),
        ("job2", "ins1", (30, 40, 60)),
        ("job2", "ins2", (40, 70, 90)),
    )
    for le, count in zip(("0.1", "0.2", "+Inf"), counts, strict=True)
)


def value(page: str, series: Series, labels: tuple[str, ...] = ()) -> float | None:
    return Names(rows(page), labels).stated((series,))[0].get(series.word)


def histogram(page: str, name: str = "a") -> Histogram | None:
    return Names(rows(page)).histograms({"ttft_seconds": (name,)})[0].get("ttft_seconds")


def test_label_sets_of_a_histogram_add_up_as_prometheus_sums_them() -> None:
    """sum(request_duration_seconds) is {count: 250, buckets: [100 90 60]}; its quantiles are in the same test."""
    found = histogram(DURATIONS, "request_duration_seconds")
    assert found is not None
    assert (found.bounds, found.counts, found.sum) == ((0.1, 0.2, INF), (100, 190, 250), None)
    for share, expected in ((0.3, 0.075), (0.5, 0.1277777777777778)):
        at = found.percentile(share)
        assert at is not None
        assert at.estimate == pytest.approx(expected)


def test_different_bounds_do_not_add_up() -> None:
    page = 'a_bucket{engine="0",le="1"} 1\na_bucket{engine="0",le="+Inf"} 2\n'
    assert histogram(page) == Histogram(bounds=(1.0, INF), counts=(1, 2))
    assert histogram(page + 'a_bucket{engine="1",le="2"} 1\na_bucket{engine="1",le="+Inf"} 2\n') is None


@pytest.mark.parametrize(
    "page",
    [
        'a_bucket{le="1"} 3\na_bucket{le="+Inf"} 2\n',  # falls
        'a_bucket{le="1"} 1\na_bucket{le="2"} 2\n',  # no infinite bucket
        'a_bucket{le="1"} 1\na_bucket{le="1.0"} 1\na_bucket{le="+Inf"} 2\n',  # one bound twice
        'a_bucket{le="1"} 1\na_bucket{le="+Inf"} 5\na_count 4\n',  # counts fewer than its buckets
        'a_bucket{le="1"} NaN\na_bucket{le="+Inf"} 5\n',
        'a_bucket{le="1"} -1\na_bucket{le="+Inf"} 5\n',
        'a_bucket{le="1"} 1\na_bucket{le="+Inf"} 1e300\n',
        'a_bucket{le="-1"} 1\na_bucket{le="+Inf"} 5\n',
        'a_bucket{le="many"} 1\na_bucket{le="+Inf"} 5\n',
        'a_bucket{engine="0"} 1\na_bucket{le="+Inf"} 5\n',
        "a_count 4\na_sum 1\n",
    ],
)
def test_what_is_no_histogram_was_not_seen(page: str) -> None:
    assert histogram(page) is None


def test_a_sum_that_is_not_stated_for_every_label_set_is_none() -> None:
    page = 'a_bucket{e="0",le="+Inf"} 2\na_bucket{e="1",le="+Inf"} 2\na_sum{e="0"} 3\n'
    (part, whole) = (histogram(page), histogram(page + 'a_sum{e="1"} 4\n'))
    assert part is not None
    assert whole is not None
    assert (part.sum, whole.sum, whole.mean()) == (None, 7, 1.75)


def test_the_newest_name_counts_alone() -> None:
    page = "new 3\nold 5\n"
    assert value(page, Series("w", ("new", "old"))) == 3
    assert value("old 5\n", Series("w", ("new", "old"))) == 5
    # served and not a number: the older name is not asked instead
    assert value("new NaN\nold 5\n", Series("w", ("new", "old"))) is None


@pytest.mark.parametrize("bad", ["NaN", "-1", "+Inf", "1.2e18", "-nan(ind)"])
def test_a_part_that_cannot_be_true_spoils_the_sum(bad: str) -> None:
    """Half a sum is a wrong number."""
    assert value(f'n{{engine="0"}} 5\nn{{engine="1"}} {bad}\n', Series("w", ("n",))) is None


@pytest.mark.parametrize(("across", "expected"), [("sum", 24), ("pools", 17), ("largest", 10), ("smallest", 7)])
def test_label_sets_combine_as_the_series_says(across: Across, expected: float) -> None:
    page = 'n{dp="0",tp="0"} 7\nn{dp="0",tp="1"} 7\nn{dp="1",tp="0"} 10\n'
    assert value(page, Series("w", ("n",), across=across), ("dp",)) == expected


def test_the_smallest_capacity_is_one_that_is_there() -> None:
    assert value('n{e="0"} 0\nn{e="1"} 4\n', Series("w", ("n",), across="smallest")) == 4
    assert value("n 0\n", Series("w", ("n",), across="smallest")) is None


def test_labels_choose_and_labels_state() -> None:
    page = 'n{reason="a"} 3\nn{reason="b"} 4\ninfo{blocks="101",size="None"} 1\n'
    assert value(page, Series("w", ("n",), only={"reason": "a"})) == 3
    assert value(page, Series("w", ("n",), only={"reason": "c"})) is None
    assert value(page, Series("w", ("info",), across="smallest", label="blocks")) == 101
    assert value(page, Series("w", ("info",), across="smallest", label="size")) is None
    assert value(page, Series("w", ("info",), across="smallest", label="absent")) is None


def test_a_sum_of_two_names_needs_both() -> None:
    both = Series("w", ("computed",), plus=("cached",))
    assert value("computed 3\ncached 4\n", both) == 7
    assert value("computed 3\n", both) is None
    assert value("cached 3\n", both) is None


def test_the_lines_are_the_text_of_the_page() -> None:
    page = '# HELP n x\n  n{engine="0"} 5 1395066363000\nn{engine="1"} 1e1\n'
    values, lines = Names(rows(page)).stated((Series("w", ("n",)),))
    assert (values, lines) == ({"w": 15}, {"w": 'n{engine="0"} 5 1395066363000\nn{engine="1"} 1e1'})


def test_a_sample_belongs_to_the_one_pool_that_it_fits() -> None:
    labels = ("model_name", "engine")
    page = (
        'n{model_name="a",engine="0"} 1\nn{model_name="a",engine="1"} 2\nn{model_name="b",engine="0"} 3\n'
        'info{engine="1"} 1\ninfo{engine="0"} 1\nall{model_name="b"} 9\nall 10\n'
    )
    found = by_pool(rows(page), labels)
    assert {name: [line for line, _ in part] for name, part in found.items()} == {
        "model_name=a engine=0": ['n{model_name="a",engine="0"} 1'],
        "model_name=a engine=1": ['n{model_name="a",engine="1"} 2', 'info{engine="1"} 1'],
        "model_name=b engine=0": ['n{model_name="b",engine="0"} 3', 'all{model_name="b"} 9'],
    }


def test_one_pool_is_the_server() -> None:
    assert by_pool(rows('n{engine="0"} 1\nm 2\n'), ("engine",)) == {}
    assert by_pool(rows('n{engine="0"} 1\nn{engine="1"} 2\n'), ()) == {}


def test_a_page_of_nonsense_labels_takes_no_time() -> None:
    page = "".join(f'n{{model_name="{at}",engine="{at % 7}"}} 1\nm{{engine="{at}"}} 1\n' for at in range(20_000))
    started = perf_counter()
    assert by_pool(rows(page), ("model_name", "engine")) == {}
    few = rows("".join(f'n{{model_name="{at}",engine="0"}} 1\nm{{model_name="{at}"}} 1\n' for at in range(1000)))
    assert len(by_pool(few, ("model_name", "engine"))["model_name=7 engine=0"]) == 2
    assert perf_counter() - started < 10


_PARTS = st.lists(
    st.tuples(st.sampled_from("012"), st.sampled_from(["0.1", "1", "10", "+Inf", "x", ""]), st.integers(-2, 9)),
    max_size=14,
)


@given(_PARTS)
def test_any_buckets_are_a_histogram_or_none(parts: list[tuple[str, str, int]]) -> None:
    page = "".join(f'a_bucket{{e="{engine}",le="{bound}"}} {count}\n' for engine, bound, count in parts) + "x 1\n"
    found = histogram(page)
    if found is not None:
        assert found.bounds[-1] == INF
        assert list(found.counts) == sorted(found.counts)
        assert found.counts[0] >= 0
