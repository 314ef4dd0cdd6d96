"""`kvlab compare`: two result files, metric by metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvlab.core.comparison import Compare, ComparedFile, ComparisonRow, LeftOut, RowVerdict
from kvlab.core.performance import judged, share
from kvlab.core.result import Result
from kvlab.core.statistics import CHANCE, MINIMUM, NO_CHANGE, Change, Statistic, bootstrap_change, fisher
from kvlab.readers import located, read

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_RATES = {
    "request_throughput": "requests/s",
    "request_goodput": "requests/s",
    "output_throughput": "tokens/s",
    "total_token_throughput": "tokens/s",
    "max_output_tokens_per_s": "tokens/s",
}
_ABOUT_THE_LOAD = ("duration", "completed", "total_input_tokens", "total_output_tokens", "max_concurrent_requests")
_STATISTICS: dict[str, Statistic] = {"mean": "mean", "median": "median", "p99": "p99"}
_LISTED = ("ttft_ms", "tpot_ms", "e2el_ms")
_SLICES = 20
_FEWEST_REQUESTS = 20
_SAME_LENGTH = 0.02
_SAME_SHARE = 0.1
"""Shares of cached prompt tokens that differ by more make two loads of one."""
_ONE_RUN = "one run a side, so the noise between runs is not in it"


def compare(a: Path, b: Path, *, seed: int = 0) -> Compare:
    """Each metric that both files have: `change` is b / a - 1, with its 95 % interval where single requests were kept.

    The interval covers what differs between requests of one run, not between runs: `kvlab ab` repeats runs for that.
    Raises BadInput for a file that cannot be read.
    """
    first, second = read(a), read(b)
    differs = _loads_differ(first, second)
    rows, left_out = [], []
    for name in first.own | second.own:
        reason = _other_definition(name, first, second)
        if reason is not None:
            left_out.append(LeftOut(name, reason))
        else:
            rows.append(_own_row(name, first, second, differs, seed))
    for metric in first.metrics | second.metrics:
        reason = _why_left_out(metric, first, second)
        if reason is not None:
            left_out.append(LeftOut(metric, reason))
        elif metric == "failed":
            rows.append(_failures(first, second, differs))
        else:
            rows.append(_row(metric, first, second, differs, seed))
    return Compare(
        a=ComparedFile(str(a), first.format),
        b=ComparedFile(str(b), second.format),
        rows=tuple(rows),
        left_out=tuple(left_out),
        remarks=_same(a, b),
    )


def _same(a: Path, b: Path) -> tuple[str, ...]:
    (a, run), (b, other) = located(a), located(b)
    if run != other:
        return ()
    if a.samefile(b):
        return ("A and B are the same file: there is nothing to compare",)
    if a.read_bytes() == b.read_bytes():
        return ("A and B hold the same bytes: one is a copy of the other, so there is nothing to compare",)
    return ()


def _why_left_out(metric: str, a: Result, b: Result) -> str | None:
    if metric in _ABOUT_THE_LOAD:
        return "describes the run; more or less of it is neither better nor worse"
    for here, there in (("a", b), ("b", a)):
        if metric not in there.metrics:
            return f"only {here} has it"
    if a.latency_from != b.latency_from and metric.endswith(("_ttft_ms", "_e2el_ms")):
        return f"a counts from the {_moment(a)}, b from the {_moment(b)}"
    return None


def _other_definition(name: str, a: Result, b: Result) -> str | None:
    """Why a number under its tool's own name cannot be compared; None when both files have it, defined alike."""
    means = {side: own.means for side, own in (("a", a.own.get(name)), ("b", b.own.get(name))) if own is not None}
    if len(set(means.values())) == 1 and len(means) == 2:
        return None
    return "; ".join(f"{side}: {text}" for side, text in means.items()) + ("" if len(means) == 2 else "; only there")


def _own_row(name: str, a: Result, b: Result, differs: str | None, seed: int) -> ComparisonRow:
    before, after = a.own[name], b.own[name]
    interval, lacking = NO_CHANGE, "one number a side: no interval"
    if before.values and after.values:
        fewest = min(len(before.values), len(after.values))
        interval = bootstrap_change(before.values, after.values, "mean", seed=seed)
        lacking = f"an interval needs {MINIMUM['mean']} repetitions a side, there are {fewest}"
    change = after.value / before.value - 1 if before.value > 0 else None
    verdict, because = _verdict(change, interval, after.higher_is_better, lacking)
    if differs is not None:
        verdict, because = "inconclusive", differs
    return ComparisonRow(
        metric=name,
        unit=after.unit,
        a=before.value,
        b=after.value,
        change=change,
        low=interval.low,
        high=interval.high,
        verdict=verdict,
        because=because,
    )


def _moment(result: Result) -> str:
    return "scheduled start of a request" if result.latency_from == "scheduled" else "moment that it was sent"


def _loads_differ(a: Result, b: Result) -> str | None:
    """How the two loads differ; None when they are the same as far as the files say."""
    for key in a.load:
        if key != "num_prompts" and key in b.load and a.load[key] != b.load[key]:
            return f"the loads differ: {key} {a.load[key]} and {b.load[key]}"
    if a.cached is not None and b.cached is not None and abs(b.cached - a.cached) > _SAME_SHARE:
        return (
            f"the prefix cache answered {share(a.cached)} of a's prompt tokens and {share(b.cached)} of b's: restart"
            " the server before each run, or give another --seed"
        )
    lengths = [_mean_input(result.metrics) for result in (a, b)]
    if lengths[0] and lengths[1] and abs(lengths[1] / lengths[0] - 1) > _SAME_LENGTH:
        return f"the loads differ: {lengths[0]:,.0f} and {lengths[1]:,.0f} input tokens a request"
    return None


def _mean_input(metrics: Mapping[str, float]) -> float | None:
    tokens, completed = metrics.get("total_input_tokens"), metrics.get("completed")
    return tokens / completed if tokens and completed else None


def _row(metric: str, a: Result, b: Result, differs: str | None, seed: int) -> ComparisonRow:
    before, after = a.metrics[metric], b.metrics[metric]
    interval, lacking = _interval(metric, a, b, seed)
    change = after / before - 1 if before > 0 else None
    verdict, because = _verdict(change, interval, metric in _RATES, lacking)
    if differs is not None:
        verdict, because = "inconclusive", differs
    return ComparisonRow(
        metric=metric,
        unit=_RATES.get(metric, "ms"),
        a=before,
        b=after,
        change=change,
        low=interval.low,
        high=interval.high,
        verdict=verdict,
        because=because,
    )


def _interval(metric: str, a: Result, b: Result, seed: int) -> tuple[Change, str]:
    """The interval of a metric's change, or why there is none."""
    if not a.lists or not b.lists:
        return NO_CHANGE, "one number a side: no interval"
    if metric in _RATES:
        return _rate_interval(metric, a, b, seed)
    part, _, name = metric.partition("_")
    if name == "itl_ms":
        # Gaps within a request depend on each other: drawing them singly would give an interval far too narrow.
        return NO_CHANGE, "no interval for single gaps between tokens; see tpot"
    if part not in _STATISTICS or name not in _LISTED:
        return NO_CHANGE, f"no interval for this statistic, only for {', '.join(_STATISTICS)}"
    statistic = _STATISTICS[part]
    one, two = a.lists.get(name, ()), b.lists.get(name, ())
    paired = a.prompts is not None and a.prompts == b.prompts and len(one) == len(two) and _all_answered(a, b)
    found = bootstrap_change(one, two, statistic, seed=seed, paired=paired)
    return found, f"an interval needs {MINIMUM[statistic]} requests a side, there are {min(len(one), len(two))}"


def _all_answered(a: Result, b: Result) -> bool:
    return all(result.metrics.get("failed") == 0 for result in (a, b))


def _rate_interval(metric: str, a: Result, b: Result, seed: int) -> tuple[Change, str]:
    slices = [_slices(metric, result.lists) for result in (a, b)]
    if slices[0] is None or slices[1] is None:
        return NO_CHANGE, f"no interval: too few requests ({_FEWEST_REQUESTS} are needed) or no start times in the file"
    return bootstrap_change(slices[0], slices[1], "mean", seed=seed), ""


def _slices(metric: str, lists: Mapping[str, Sequence[float]]) -> Sequence[float] | None:
    """The rate in each of 20 equal parts of the run; their mean is the rate of the run.

    A request counts evenly from its start to its last token, its prompt from the start to the first token, its answer
    from there to the last. The run's ramps at both ends are part of it and widen the interval.
    """
    import numpy as np

    known = [np.asarray(lists.get(name, ()), dtype=float) for name in ("first_at", "done_at", "ttft_ms")]
    first, done, ttft = known
    if len(first) < _FEWEST_REQUESTS or not len(first) == len(done) == len(ttft):
        return None
    start = first - ttft / 1000
    edges = np.linspace(start.min(), done.max(), _SLICES + 1)
    if metric == "request_throughput":
        amounts = _spread(start, done, np.ones_like(first), edges)
    elif metric in ("output_throughput", "total_token_throughput"):
        output = np.asarray(lists.get("output_tokens", ()), dtype=float)
        prompt = np.asarray(lists.get("input_tokens", ()), dtype=float)
        if len(output) != len(first) or (metric == "total_token_throughput" and len(prompt) != len(first)):
            return None
        amounts = _spread(first, done, output, edges)
        if metric == "total_token_throughput":
            amounts = amounts + _spread(start, first, prompt, edges)
    else:
        return None
    rates: list[float] = (amounts / np.diff(edges)).tolist()
    return rates


def _spread(
    begin: NDArray[np.float64], end: NDArray[np.float64], amount: NDArray[np.float64], edges: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How much of each amount, spread evenly between `begin` and `end`, lies between two edges."""
    import numpy as np

    length = np.maximum(end - begin, 1e-9)
    # Share of each request that lies before each edge: (requests, edges).
    before = np.clip((edges[None, :] - begin[:, None]) / length[:, None], 0.0, 1.0)
    before[:, -1] = 1.0
    total: NDArray[np.float64] = (np.diff(before, axis=1) * amount[:, None]).sum(axis=0)
    return total


def _verdict(change: float | None, interval: Change, higher_is_better: bool, lacking: str) -> tuple[RowVerdict, str]:
    if change is None:
        return "inconclusive", "a's value is not above zero, so there is no relative change"
    if interval.low is None or interval.high is None:
        return "inconclusive", lacking
    verdict, because = judged(change, (interval.low, interval.high), higher_is_better=higher_is_better)
    return verdict, f"{because} ({_ONE_RUN})"


def _failures(a: Result, b: Result, differs: str | None) -> ComparisonRow:
    before, after = a.metrics["failed"], b.metrics["failed"]
    verdict, because = _failure_verdict(a.metrics, b.metrics)
    if differs is not None:
        verdict, because = "inconclusive", differs
    change = after / before - 1 if before > 0 else None
    return ComparisonRow(
        metric="failed", unit="requests", a=before, b=after, change=change, verdict=verdict, because=because
    )


def _failure_verdict(a: Mapping[str, float], b: Mapping[str, float]) -> tuple[RowVerdict, str]:
    """Fisher's exact test at 5 %, two-sided."""
    if not a["failed"] and not b["failed"]:
        return "no difference seen", "every request was answered"
    if "completed" not in a or "completed" not in b:
        return "inconclusive", "a file does not say how many requests were answered"
    one, two = ((int(side["failed"]), int(side["completed"])) for side in (a, b))
    if fisher(one, two) >= CHANCE:
        return "no difference seen", "the numbers of failures may differ by chance"
    fewer = two[0] * sum(one) < one[0] * sum(two)
    return ("better" if fewer else "worse"), "more than chance explains"
