"""The verdict on simulated experiments whose truth is known."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from kvlab.core.errors import BadInput
from kvlab.core.judge import judge
from kvlab.core.measure import PoolUse
from kvlab.core.quality import Agreement, Interval, Quality
from kvlab.core.record import AbVerdict, Run, RunRow

BUSY = PoolUse(peak_kv_used=0.97, peak_waiting=5.0, peak_running=4.0, preemptions=0.0, samples=20)
IDLE = PoolUse(peak_kv_used=0.31, peak_waiting=0.0, peak_running=4.0, preemptions=0.0, samples=20)
FEW = 400  # resamples: the verdicts do not change, the tests take a fifth of the time


def experiment(
    truth: dict[str, float], *, seed: int = 0, noise: float = 0.01, pool: PoolUse = BUSY, fails: float = 0.0
) -> list[Run]:
    """Runs of A B B A. `truth`: how B multiplies "ttft" and "tpot"; `noise`: between runs; `fails`: share in B."""
    rng = np.random.default_rng(seed)
    prompts = 48
    first = rng.lognormal(-1, 0.4, prompts)
    runs = []
    for block, arm in enumerate("abba"):
        machine = float(np.exp(rng.normal(0, noise)))
        in_b = arm == "b"
        ttft = first * machine * rng.lognormal(0, 0.05, prompts) * (truth.get("ttft", 1.0) if in_b else 1)
        tpot = 0.03 * machine * rng.lognormal(0, 0.05, prompts) * (truth.get("tpot", 1.0) if in_b else 1)
        broken = rng.random(prompts) < (fails if in_b else 0)
        rows = tuple(
            RunRow(
                scheduled=0.0,
                ttft=None if bad else float(t),
                tpot=None if bad else float(p),
                e2e=None if bad else float(t + 31 * p),
                prompt_tokens=100,
                output_tokens=None if bad else 32,
                error="500 Internal Server Error" if bad else None,
            )
            for t, p, bad in zip(ttft, tpot, broken, strict=True)
        )
        served = float(sum((ttft + 31 * tpot)[~broken]))
        good = int((~broken).sum())
        metrics = {"request_throughput": 4 * good / served, "output_throughput": 4 * 32 * good / served} if good else {}
        runs.append(
            Run(
                block=block,
                arm="b" if in_b else "a",
                folder=f"run-{block}",
                metrics=metrics,
                completed=good,
                failed=prompts - good,
                rows=rows,
                samples=(),
                pool=pool,
            )
        )
    return runs


def quality(verdict: str) -> Quality:
    agreement = Agreement(prompts=48, failed=0, identical=Interval(0.9, 0.8, 0.96), shared_prefix=Interval(0.9, 0.8, 1))
    return Quality(
        max_tokens=64,
        noise_floor=agreement,
        candidate=agreement,
        by_kind={},
        divergences=(),
        verdict=verdict,  # type: ignore[arg-type]  # the three words of the type, as parameters
        because="48 prompts",
    )


def verdict(runs: list[Run], answers: str | None = "within the noise floor", seed: int = 1) -> AbVerdict:
    return judge(runs, None if answers is None else quality(answers), None, seed=seed, resamples=FEW)[2]


def test_a_faster_arm_is_better() -> None:
    rows, pool, found = judge(experiment({"ttft": 0.6, "tpot": 0.7}), None, None, seed=1)
    assert found.code == "better"
    by_name = {row.metric: row for row in rows}
    tpot = by_name["mean_tpot_ms"]
    assert tpot.low is not None
    assert tpot.high is not None
    assert tpot.low < -0.3 < tpot.high
    assert tpot.verdict == "better"
    assert by_name["output_throughput"].verdict == "better"
    assert pool.filled is True


def test_a_slower_arm_is_worse() -> None:
    assert verdict(experiment({"ttft": 1.5, "tpot": 1.4})).code == "worse"


def test_names_and_units_are_those_of_vllms_result_file() -> None:
    rows, _, _ = judge(experiment({}), None, None, seed=1, resamples=FEW)
    assert [row.metric for row in rows] == [
        "request_throughput",
        "output_throughput",
        "mean_ttft_ms",
        "median_ttft_ms",
        "p99_ttft_ms",
        "mean_tpot_ms",
        "median_tpot_ms",
        "p99_tpot_ms",
        "mean_e2el_ms",
        "median_e2el_ms",
        "p99_e2el_ms",
    ]
    tpot = next(row for row in rows if row.metric == "mean_tpot_ms")
    assert tpot.a == pytest.approx(30, rel=0.05)  # 0.03 s a token, in milliseconds


def test_a_p99_of_48_prompts_has_no_interval() -> None:
    rows, _, _ = judge(experiment({"ttft": 0.5}), None, None, seed=1, resamples=FEW)
    p99 = next(row for row in rows if row.metric == "p99_ttft_ms")
    assert (p99.low, p99.high, p99.verdict) == (None, None, "inconclusive")
    assert "368 prompts" in p99.because


def test_an_arm_against_itself_is_seldom_called_different() -> None:
    """At 95 % a metric alone errs in one experiment of twenty; the four that decide err together more or less."""
    found = [verdict(experiment({}, seed=seed, noise=0.03), seed=seed).code for seed in range(60)]
    wrong = sum(code in ("better", "worse") for code in found)
    assert wrong <= 7
    assert found.count("no_difference_seen") >= 25


def test_a_difference_hidden_in_noise_is_inconclusive_and_the_drift_is_named() -> None:
    found = verdict(experiment({"ttft": 0.95, "tpot": 0.95}, seed=3, noise=0.3))
    assert found.code == "inconclusive"
    assert any("runs of the same arm differ in" in reason for reason in found.because)


def test_a_load_that_never_filled_the_pool_cannot_show_no_difference() -> None:
    runs = experiment({}, pool=IDLE)
    _, pool, found = judge(runs, None, None, seed=1, resamples=FEW)
    assert pool.filled is False
    assert pool.a_peak_usage == 0.31
    assert found.code == "inconclusive"
    assert "never filled the pool" in found.text
    assert "31 %" in found.because[0]


def test_a_measured_difference_stands_at_a_light_load_with_the_remark() -> None:
    found = verdict(experiment({"ttft": 0.6, "tpot": 0.7}, pool=IDLE))
    assert found.code == "better"
    assert any("never filled the pool" in reason for reason in found.because)


def test_an_engine_that_does_not_say_leaves_the_pool_unknown() -> None:
    _, pool, found = judge(experiment({}, pool=PoolUse()), None, None, seed=1, resamples=FEW)
    assert pool.filled is None
    assert any("does not say how full" in reason for reason in found.because)


def test_more_throughput_at_slower_tokens_is_better_with_its_price() -> None:
    found = verdict(experiment({"ttft": 0.1, "tpot": 1.15}))
    assert found.code == "better"
    assert "the price: worse in mean time per output token (+1" in found.text


def test_more_throughput_with_slower_requests_is_for_the_user_to_weigh() -> None:
    runs = experiment({"ttft": 1.5, "tpot": 1.4})
    more = [
        run if run.arm == "a" else _with_throughput(run, 1.5 * runs[0].metrics["output_throughput"]) for run in runs
    ]
    found = verdict(more)
    assert found.code == "inconclusive"
    assert "mixed" in found.text


def _with_throughput(run: Run, value: float) -> Run:
    import msgspec

    return msgspec.structs.replace(run, metrics={"output_throughput": value})


def test_an_arm_that_fails_requests_is_worse_however_fast_the_rest() -> None:
    found = verdict(experiment({}, fails=0.3))
    assert found.code == "worse"
    assert "B fails more requests than A" in found.text
    assert "0 of 96 requests failed in arm A" in found.because[0]
    assert verdict(experiment({"ttft": 0.5, "tpot": 0.5}, fails=0.3)).code == "inconclusive"


def test_an_arm_that_answers_nothing_is_worse() -> None:
    found = verdict(experiment({}, fails=1.0))
    assert found.code == "worse"
    assert "no request was answered in every run" in found.text


def test_other_answers_are_neither_better_nor_worse_until_read() -> None:
    faster, same = experiment({"ttft": 0.6, "tpot": 0.7}), experiment({})
    slower = experiment({"ttft": 1.5, "tpot": 1.4})
    assert verdict(faster, "below the noise floor").code == "inconclusive"
    assert "read them before you decide" in verdict(faster, "below the noise floor").text
    assert verdict(same, "below the noise floor").code == "inconclusive"
    assert verdict(slower, "below the noise floor").code == "worse"
    assert verdict(faster, "inconclusive").code == "better"
    assert "answer quality was not compared" in verdict(faster, None).because


def test_a_queue_with_room_in_the_cache_names_the_slots() -> None:
    found = verdict(experiment({}, pool=PoolUse(peak_kv_used=0.4, peak_waiting=6.0, preemptions=3.0)))
    assert any("the number of slots limits the concurrency" in reason for reason in found.because)
    assert any("arm A preempted 6 requests" in reason for reason in found.because)


def test_arms_that_run_different_batches_are_said_to() -> None:
    runs = experiment({})
    wide = PoolUse(peak_kv_used=0.97, peak_waiting=0.0, peak_running=7.0)
    runs = [msgspec.structs.replace(run, pool=wide) if run.arm == "b" else run for run in runs]
    assert any("up to 4 requests ran at once in A and 7 in B" in reason for reason in verdict(runs).because)
    assert not any("at once in A" in reason for reason in verdict(experiment({})).because)


def test_the_batches_stand_right_after_the_time_per_output_token() -> None:
    wide = PoolUse(peak_kv_used=0.97, peak_waiting=0.0, peak_running=7.0)
    runs = [msgspec.structs.replace(run, pool=wide) if run.arm == "b" else run for run in experiment({})]
    because = verdict(runs).because
    at = next(at for at, reason in enumerate(because) if "requests ran at once in A" in reason)
    assert because[at - 1].startswith("mean time per output token")
    assert at <= 4


def test_an_interval_that_says_nothing_is_not_printed() -> None:
    found = verdict(experiment({}, seed=3, noise=3.0))
    assert any("no usable interval" in reason for reason in found.because)
    assert not any("000 %" in reason for reason in found.because)


def test_one_run_per_arm_is_inconclusive() -> None:
    found = verdict(experiment({"ttft": 0.5, "tpot": 0.5})[:2])
    assert found.code == "inconclusive"
    assert "ran only once" in found.text


def test_runs_that_do_not_pair_are_refused_in_one_line() -> None:
    import msgspec

    runs = experiment({})
    runs[2] = msgspec.structs.replace(runs[2], rows=runs[2].rows[:40])
    with pytest.raises(BadInput, match="40 and 48 requests"):
        judge(runs, None, None, seed=1)
