"""The verdict of an A/B experiment: one word, one sentence, and every reason for it.

The rule, in this order:

1. Performance. Four metrics decide: output throughput, mean TTFT, mean TPOT, mean end-to-end latency; each counts as
   changed by the rule of `compare_runs`. Only gains: better. Only losses: worse. Both: throughput and end-to-end
   latency, which is what a user waits for, decide if they do not contradict each other, and the price is named;
   otherwise inconclusive. Neither: no difference seen if throughput and end-to-end latency were both measured closely
   enough, else inconclusive.
2. Failed requests. Fisher's exact test at 5 %: the arm that fails more is the worse one, whatever the latencies of its
   survivors; if performance says the opposite, inconclusive.
3. The pool. When the load never filled it, "no difference seen" becomes inconclusive: the experiment never reached
   what a larger cache is for. A difference that was measured stands, with the remark.
4. Quality. An arm that fails the gate is the worse one, however fast: the gate's rule was fixed before the run. Answers
   below the noise floor that do not fail it are other answers, which need not be worse ones: "better" and "no
   difference seen" become inconclusive, since a person must read them first; the rest stands, with the remark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from kvlab.core.comparison import ComparisonRow
from kvlab.core.performance import DECISIVE, PRIMARY, compare_runs, percent, share
from kvlab.core.quality import Prefix, Quality
from kvlab.core.record import AbVerdict, PoolPeak, Run
from kvlab.core.remarks import (
    FULL,
    TITLES,
    ArmSum,
    added_up,
    batches,
    beside_tpot,
    drifted,
    pressure,
    sentence,
    slow_begin,
    unsteady,
)
from kvlab.core.statistics import CHANCE, fisher
from kvlab.core.units import listed

Code = Literal["better", "worse", "no_difference_seen", "inconclusive"]

_OTHER_ANSWERS = "B's answers differ from A's by more than A's own from run to run: read them before you decide."


class _Finding(NamedTuple):
    code: Code
    text: str
    because: tuple[str, ...]


def judge(
    runs: Sequence[Run],
    quality: Quality | None,
    prefix: Prefix | None,
    *,
    seed: int,
    resamples: int = 2000,
    sequential: bool = False,
) -> tuple[tuple[ComparisonRow, ...], PoolPeak, AbVerdict]:
    """The comparison rows, whether the pool was filled, and the verdict by the rule above.

    `sequential`: the experiment could have stopped after every block (`compare_runs`). Raises BadInput when the runs
    hold different numbers of prompts.
    """
    rows = compare_runs(runs, seed=seed, resamples=resamples, sequential=sequential)
    a, b = (
        added_up("A", [run for run in runs if run.arm == "a"]),
        added_up("B", [run for run in runs if run.arm == "b"]),
    )
    pool = PoolPeak(a_peak_usage=a.peak, b_peak_usage=b.peak, filled=_filled(a, b))
    found = _performance(rows)
    found = _with_failures(found._replace(because=beside_tpot(found.because, batches(a, b))), a, b)
    found = _with_quality(_with_pool(found, pool), quality)
    because = (*found.because, *pressure(a, b), *unsteady(rows), *drifted(runs), *slow_begin(runs))
    if prefix is not None:
        because = (*because, f"{prefix.verdict}: {prefix.because}")
    return rows, pool, AbVerdict(code=found.code, text=found.text, because=because)


def settled(rows: Sequence[ComparisonRow]) -> bool:
    """Whether throughput and end-to-end latency are both decided, so that more runs would not change the verdict."""
    decided = {row.metric for row in rows if row.verdict != "inconclusive"}
    return decided.issuperset(DECISIVE)


def _filled(a: ArmSum, b: ArmSum) -> bool | None:
    """Whether either arm ever ran out: cache used to 90 %, a request that waited, or one preempted. None: not seen."""
    if any((arm.peak or 0) >= FULL or (arm.waited or 0) > 0 or (arm.preempted or 0) > 0 for arm in (a, b)):
        return True
    seen = all(arm.peak is not None and arm.waited is not None for arm in (a, b))
    return False if seen else None


def _performance(rows: Sequence[ComparisonRow]) -> _Finding:
    primary = [row for row in rows if row.metric in PRIMARY]
    better = [row for row in primary if row.verdict == "better"]
    worse = [row for row in primary if row.verdict == "worse"]
    because = tuple(sentence(row) for row in primary)
    if better and worse:
        return _mixed(better, worse, because)
    if better or worse:
        return _Finding("better" if better else "worse", f"B is {_words(better or worse)}.", because)
    close = [row.metric for row in primary if row.verdict == "no difference seen"]
    if all(metric in close for metric in DECISIVE):
        return _Finding("no_difference_seen", "No difference between A and B was seen at this load.", because)
    if not any(row.metric in ("mean_ttft_ms", "mean_e2el_ms") for row in primary):
        text = "The arms cannot be compared: no request was answered in every run."
    elif all(row.noise is None for row in primary):
        text = "An arm ran only once, so a change cannot be told from noise."
    else:
        text = "The noise is too large to tell B from A."
    return _Finding("inconclusive", text, because)


def _mixed(better: list[ComparisonRow], worse: list[ComparisonRow], because: tuple[str, ...]) -> _Finding:
    gains = [row for row in better if row.metric in DECISIVE]
    losses = [row for row in worse if row.metric in DECISIVE]
    if gains and not losses:
        return _Finding("better", f"B is {_words(better)}; the price: {_words(worse)}.", because)
    if losses and not gains:
        return _Finding("worse", f"B is {_words(worse)}, although {_words(better)}.", because)
    text = f"B is mixed: {_words(better)}, but {_words(worse)}; which of them matters is for you to say."
    return _Finding("inconclusive", text, because)


def _words(rows: Sequence[ComparisonRow]) -> str:
    """Rows in a few words, the whole request first: "better in output throughput (+31 %) and ..."."""
    parts = [f"{TITLES[row.metric]} ({percent(row.change or 0)})" for row in rows]
    return f"{rows[0].verdict} in {listed(parts)}"


def _with_failures(found: _Finding, a: ArmSum, b: ArmSum) -> _Finding:
    if not a.failed and not b.failed:
        return found
    counts = (
        f"{a.failed} of {a.failed + a.completed} requests failed in arm A, {b.failed} of {b.failed + b.completed} in B"
    )
    if fisher((a.failed, a.completed), (b.failed, b.completed)) >= CHANCE:
        remark = f"{counts}, which may be chance; latencies compare the prompts that were answered in every run"
        return found._replace(because=(remark, *found.because))
    b_fails_more = b.failed * (a.failed + a.completed) > a.failed * (b.failed + b.completed)
    code: Code = "worse" if b_fails_more else "better"
    opposite = "better" if b_fails_more else "worse"
    because = (f"{counts}: more than chance explains", *found.because)
    if found.code == opposite:
        text = f"B fails {'more' if b_fails_more else 'fewer'} requests, while those it answers went the other way."
        return _Finding("inconclusive", text, because)
    return _Finding(code, f"B fails {'more' if b_fails_more else 'fewer'} requests than A. {found.text}", because)


def _with_pool(found: _Finding, pool: PoolPeak) -> _Finding:
    if pool.filled is None:
        remark = "the engine does not say how full its cache was, so whether the load filled the pool is unknown"
        return found._replace(because=(*found.because, remark))
    if pool.filled:
        return found
    peak = max(pool.a_peak_usage or 0, pool.b_peak_usage or 0)
    remark = (
        f"the load never filled the pool: at most {share(peak)} of the cache was in use and nothing waited;"
        " raise concurrency or lengths to see what a larger cache is worth"
    )
    if found.code == "no_difference_seen":
        text = "No difference was seen, but the load never filled the pool, so a larger cache could not show."
        return _Finding("inconclusive", text, (remark, *found.because))
    return found._replace(because=(*found.because, remark))


def _with_quality(found: _Finding, quality: Quality | None) -> _Finding:
    if quality is None:
        return found._replace(because=(*found.because, "answer quality was not compared"))
    remark = f"answers {quality.verdict}: {quality.because}"
    if quality.gate is not None and quality.gate.verdict == "fail":
        because = (f"the quality gate fails: {quality.gate.because}", remark, *found.because)
        return _Finding("worse", f"B fails the quality gate. {found.text}", because)
    if quality.gate is not None and quality.gate.verdict == "inconclusive":
        remark = f"the quality gate is inconclusive: {quality.gate.because}; {remark}"
    if quality.verdict != "below the noise floor":
        return found._replace(because=(*found.because, remark))
    because = (remark, *found.because)
    text = f"{found.text} {_OTHER_ANSWERS}"
    return _Finding("worse" if found.code == "worse" else "inconclusive", text, because)
