"""The verdict on simulated experiments whose truth is known."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from kvlab.core.errors import BadInput
from kvlab.core.gate import Gate, GateRule
from kvlab.core.judge import judge
from kvlab.core.measure import PoolUse
from kvlab.core.quality import Agreement, Interval, Quality
from kvlab.core.record import AbVerdict, Run, RunRow
from kvlab.core.settle import more
from kvlab.settings import order

BUSY = PoolUse(peak_kv_used=0.97, peak_waiting=5.0, peak_running=4.0, preemptions=0.0, samples=20)
IDLE = PoolUse(peak_kv_used=0.31, peak_waiting=0.0, peak_running=4.0, preemptions=0.0, samples=20)
FEW = 400  # resamples: the verdicts do not change, the tests take a fifth of the time


def experiment(
    truth: dict[str, float],
    *,
    seed: int = 0,
    noise: float = 0.01,
    pool: PoolUse = BUSY,
    fails: float = 0.0,
    blocks: int = 1,
) -> list[Run]:
    """Runs of A B B A ... `truth`: how B multiplies "ttft" and "tpot"; `noise`: between runs; `fails`: share in B."""
    rng = np.random.default_rng(seed)
    prompts = 48
    first = rng.lognormal(-1, 0.4, prompts)
    runs = []
    for block, arm in enumerate(order(blocks)):
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


@pytest.mark.parametrize("blocks", [1, 2, 3, 4])
def test_more_blocks_do_not_undo_what_fewer_have_shown(blocks: int) -> None:
    """The time per output token stays as it is: what is tested must be within reach of three metrics out of four."""
    found = [verdict(experiment({"ttft": 0.7}, seed=seed, blocks=blocks)).code for seed in range(6)]
    assert found.count("better") >= 5


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


@pytest.mark.parametrize(("blocks", "told_alike"), [(1, 0), (2, 30)])
def test_an_arm_against_itself_is_seldom_called_different(blocks: int, told_alike: int) -> None:
    """The four metrics that decide err together in one experiment of twenty: 3 of 60, and 7 with a chance of 3 %.

    One block cannot show that nothing differs; more of them can.
    """
    found = [verdict(experiment({}, seed=seed, noise=0.03, blocks=blocks), seed=seed).code for seed in range(60)]
    assert sum(code in ("better", "worse") for code in found) <= 6
    assert found.count("no_difference_seen") >= told_alike


def test_a_change_of_one_percent_is_not_called() -> None:
    found = [verdict(experiment({"ttft": 1.01, "tpot": 1.01}, seed=seed, blocks=3)).code for seed in range(25)]
    assert found.count("worse") <= 2
    assert found.count("better") == 0


def test_an_inconclusive_experiment_says_what_would_settle_it() -> None:
    """A tenth slower, and runs that differ by 3 %: two more blocks make it plain."""
    runs = experiment({"ttft": 1.1, "tpot": 1.1}, seed=1, noise=0.03)
    rows, _, found = judge(runs, None, None, seed=1, resamples=FEW)
    assert found.code == "inconclusive"
    needed = more(rows, blocks=1, prompts=48, sequential=False)
    assert needed is not None
    assert needed.low <= needed.requests
    assert needed.high is None or needed.requests <= needed.high
    assert needed.requests % (4 * 48) == 0
    enough = 1 + needed.requests // (4 * 48)
    settled = [
        verdict(experiment({"ttft": 1.1, "tpot": 1.1}, seed=seed, noise=0.03, blocks=enough)).code for seed in range(20)
    ]
    assert settled.count("worse") >= 12


def test_a_failed_gate_makes_an_arm_the_worse_one_however_fast() -> None:
    failed = Gate(verdict="fail", because="tasks: 12 points fewer are right", rule=GateRule(), asked=("tasks",))
    gated = msgspec.structs.replace(quality("within the noise floor"), gate=failed)
    _, _, found = judge(experiment({"ttft": 0.6, "tpot": 0.7}), gated, None, seed=1, resamples=FEW)
    assert found.code == "worse"
    assert found.text.startswith("B fails the quality gate")
    assert "12 points" in found.because[0]


def test_a_warm_up_that_was_too_short_is_named() -> None:
    runs = []
    for run in experiment({}):
        slow = [
            msgspec.structs.replace(row, e2e=row.e2e * (1.8 if at < 12 else 1.0)) if row.e2e is not None else row
            for at, row in enumerate(run.rows)
        ]
        runs.append(msgspec.structs.replace(run, rows=tuple(slow)))
    assert any("first quarter of every run is slower" in reason for reason in verdict(runs).because)
    assert not any("first quarter" in reason for reason in verdict(experiment({})).because)


def test_a_difference_hidden_in_noise_is_inconclusive_and_the_drift_is_named() -> None:
    found = verdict(experiment({"ttft": 0.95, "tpot": 0.95}, seed=3, noise=0.3))
    assert found.code == "inconclusive"
    assert any("two arms of one configuration would differ in" in reason for reason in found.because)


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
