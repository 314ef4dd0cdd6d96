"""SGLang's admission and retraction: its published constants, its log, and seven published runs of release 0.5.18."""

from __future__ import annotations

import csv
import re
from functools import cache
from io import StringIO
from itertools import pairwise
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import kvlab
from kvlab.core.errors import BadInput
from kvlab.reporting.charts.traffic import preemptions
from kvlab.reporting.terminal_traffic import traffic as on_terminal
from kvlab.workload.blockpool import BlockPool
from kvlab.workload.scheduler import Job, Limits, Speed, State
from kvlab.workload.schedulers import PARTS, known, page, scheduler
from kvlab.workload.schedulers._ratio import NewTokenRatio
from kvlab.workload.schedulers.sglang import Retracting

GOLDEN = Path(__file__).parents[1] / "golden"
LOG = GOLDEN / "sglang" / "retraction_0.5.18.log"
POOL = 87_552
"""max_total_num_tokens of the runs."""
SPEED = Speed(step=0.00985, prefill_token=9e-5, decode_token=2.8e-5, held_token=1.68e-7)
"""Least squares over twenty "Decode batch" lines of the server's log in another run (2 a second, six days later), from
5 requests with 2,500 tokens (10.4 ms a step) to 66 with 86,000 (26.1 ms): within 0.6 ms of each. 351 tokens of prefill
took 38 to 43 ms."""


class Asked(NamedTuple):
    done: int
    answer: int


class Event(NamedTuple):
    request: int
    answered: int
    gained: int
    before: float
    after: float


class Run(NamedTuple):
    simulation: Retracting
    jobs: list[Job]
    most_running: int
    most_waiting: int


def rows(name: str) -> list[dict[str, str]]:
    with (GOLDEN / "traces" / name).open() as file:
        return list(csv.DictReader(file))


def published(rate: str) -> list[Event]:
    return [
        Event(
            request=int(row["request"]),
            answered=int(row["answered"]),
            gained=int(row["gained"]),
            before=float(row["before"]),
            after=float(row["after"]),
        )
        for row in rows("sglang_retractions.csv")
        if row["rate"] == rate
    ]


@cache
def simulated(rate: str) -> Run:
    """The 120 requests at so many a second; they share 36 tokens of prompt."""
    jobs = [
        Job(at, float(row["arrival"]) / float(rate), 387, int(row["answer"]), range(36))
        for at, row in enumerate(rows("sglang_lengths.csv"))
    ]
    states: list[State] = []
    simulation = Retracting(BlockPool(POOL), Limits(1, 2048, 2048), SPEED, states.append)
    simulation.run(jobs)
    return Run(simulation, jobs, max(one.running for one in states), max(one.waiting for one in states))


@pytest.mark.parametrize(
    ("conservativeness", "initial", "least"), [(1.0, 0.7, 0.098), (0.5, 0.35, 0.049), (2.0, 1.0, 0.14)]
)
def test_the_ratio_begins_and_ends_where_sglang_tests_that_it_does(
    conservativeness: float, initial: float, least: float
) -> None:
    ratio = NewTokenRatio(conservativeness)
    assert ratio.now == ratio.initial == pytest.approx(initial)
    ratio.decay(599)
    assert ratio.now > least
    ratio.decay(2)
    assert ratio.now == pytest.approx(least)
    ratio.reset()
    assert ratio.now == pytest.approx(initial)


@pytest.mark.parametrize(
    ("running", "ratio"),
    [
        ([Asked(5, 100), Asked(3, 50)], 48 / 151),
        ([Asked(200, 10)], 1.0),
        ([Asked(0, 1000), Asked(0, 1000)], 40 / 2001),
        ([], 0.0),
    ],
)
def test_the_ratio_after_a_retraction_is_what_sglang_tests_that_it_is(running: list[Asked], ratio: float) -> None:
    """Values of SGLang's test_new_token_ratio_tracker.py."""
    found = NewTokenRatio()
    found.retracted(running)
    assert found.now == pytest.approx(ratio)


def logged() -> list[tuple[float, float]]:
    said = re.findall(r"#new_token_ratio: ([\d.]+) -> ([\d.]+)", LOG.read_text())
    assert len(said) == 5
    return [(float(before), float(after)) for before, after in said]


def test_between_two_retractions_the_log_decays_in_whole_steps() -> None:
    runs = [logged(), *([(one.before, one.after) for one in published(rate)] for rate in ("0.8", "1", "2", "4", "8"))]
    gaps = [(one[1], other[0]) for run in runs for one, other in pairwise(run)]
    assert len(gaps) == 4 + 83
    for after, before in gaps:
        fitting = []
        for steps in range(1, 700):
            ratio = NewTokenRatio()
            ratio.now = after
            ratio.decay(steps)
            if abs(ratio.now - before) <= 1.1e-4:  # both are printed with four digits
                fitting.append(steps)
        assert fitting, f"{after} -> {before}"


@pytest.mark.parametrize("rate", ["0.5", "0.6", "0.8", "1", "2", "4"])
def test_published_runs_retract_as_often_and_wait_as_long(rate: str) -> None:
    run, (said,) = simulated(rate), [row for row in rows("sglang_sweep.csv") if row["rate"] == rate]
    found = [one for event in run.simulation.retractions for one in event.requests]
    assert abs(len(found) - int(said["retractions"])) <= 1
    shared = set(found) & {event.request for event in published(rate)}
    assert len(shared) >= 0.8 * int(said["retractions"])
    assert all(job.finished is not None and job.done == job.answer for job in run.jobs)
    assert sum(job.recomputed for job in run.jobs) == pytest.approx(int(said["recomputed"]), rel=0.08)
    assert run.most_running == pytest.approx(int(said["most_running"]), abs=2)
    assert run.most_waiting == pytest.approx(int(said["most_waiting"]), abs=4)
    waits = quantiles([(job.first_token or 0) - job.arrival for job in run.jobs], n=100, method="inclusive")
    assert waits[49] == pytest.approx(float(said["ttft_p50_s"]), abs=0.01)
    assert waits[98] == pytest.approx(float(said["ttft_p99_s"]), rel=0.15, abs=0.03)


@pytest.mark.parametrize("rate", ["0.8", "2"])
def test_the_same_requests_are_retracted_in_the_same_order_and_leave_the_same_ratio(rate: str) -> None:
    said, found = published(rate), simulated(rate).simulation.retractions
    assert [event.requests for event in found] == [(event.request,) for event in said]
    for event, one in zip(found, said, strict=True):
        assert event.after == pytest.approx(one.after, abs=0.015)
        assert event.before < event.after


def test_a_retraction_frees_the_prompt_too_where_twenty_steps_ahead_ask_for_it() -> None:
    """#new_tokens_gained of the log is the answer alone, or with the 350 to 352 tokens that no other request shares."""
    said, found = published("2"), simulated("2").simulation.retractions
    alike = [
        (event, one)
        for event, one in zip(found, said, strict=True)
        if abs(event.answered[0] - one.answered) < 0.2 * one.answered
    ]
    assert len(alike) >= 17
    for event, one in alike:
        assert one.gained - one.answered in (0, 350, 351, 352)
        assert (event.gained > event.answered[0]) == (one.gained > one.answered)
    assert len({event.gained > event.answered[0] for event, _ in alike}) == 2


jobs_of = st.lists(
    st.tuples(st.floats(0, 20), st.integers(1, 60), st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=15
)


@settings(max_examples=120, deadline=None)
@given(jobs_of, st.integers(4, 40), st.sampled_from([1, 4, 8]), st.integers(8, 32), st.integers(1, 8))
def test_no_page_is_lost_and_every_request_that_fits_ends(
    asked: list[tuple[float, int, int, int]], size: int, page: int, chunk: int, most: int
) -> None:
    jobs = [
        Job(at, time, prompt, answer, [1000 * group + block for block in range(prompt // page)])
        for at, (time, prompt, answer, group) in enumerate(asked)
    ]
    pool = BlockPool(size)
    states: list[State] = []
    simulation = Retracting(pool, Limits(page, most, chunk), Speed(0.5, 0.01, 0.01, 0.001), states.append)
    simulation.run(jobs)
    assert pool.free == size
    assert all(0 <= state.used <= size and state.running <= most for state in states)
    for job in jobs:
        fits = job.prompt + job.answer + page < size * page
        assert (job.finished is not None) == fits
        if fits:
            assert job.done == job.answer
            assert job.first_token is not None
            assert job.arrival <= (job.admitted or 0) < job.first_token <= (job.finished or 0)
    retracted = [number for event in simulation.retractions for number in event.requests]
    assert sorted(retracted) == sorted(job.number for job in jobs for _ in range(job.preemptions))


def test_a_request_that_was_retracted_finds_its_prompt_again() -> None:
    """Of two, the one with fewer answered tokens goes; what it answered is room enough, so its prompt stays."""
    jobs = [Job(0, 0.0, 40, 800, ()), Job(1, 13.0, 40, 200, ())]
    simulation = Retracting(BlockPool(1_000), Limits(1), Speed(0.02, 0.0001), lambda state: None)
    simulation.run(jobs)
    (event,) = simulation.retractions
    assert event.requests == (1,)
    assert 20 <= event.answered[0] < 200
    assert event.before == pytest.approx(0.098)
    assert jobs[1].recomputed == event.answered[0]
    assert [job.done for job in jobs] == [800, 200]
    assert (jobs[0].finished or 0) < (jobs[1].finished or 0)


def test_a_prompt_that_two_requests_compute_at_once_is_kept_once() -> None:
    states: list[State] = []
    jobs = [Job(at, 0.0, 65, answer, range(65)) for at, answer in enumerate((3, 5, 5))]
    Retracting(BlockPool(400), Limits(1), Speed(1.0, 0.001), states.append).run(jobs)
    assert [job.hit for job in jobs] == [0, 0, 0]
    assert [state.used for state in states] == [3 * 65, 65 + 2 * 2, 0]  # each that ends, and the others with two tokens


def test_a_long_prompt_is_computed_in_chunks() -> None:
    states: list[State] = []
    job = Job(0, 0.0, 5_000, 3, ())
    Retracting(BlockPool(6_000), Limits(1, 8, 2048), Speed(1.0, 0.001), states.append).run([job])
    assert job.first_token == pytest.approx(3 + 5.0)  # three batches: 2,048, 2,048 and 904 tokens
    assert job.finished == pytest.approx(3 + 5.0 + 2)
    assert len(states) == 4


def mooncake(path: Path) -> Path:
    lines = [
        f'{{"timestamp": {at * 100}, "input_length": 1024, "output_length": 600, "hash_ids": [0, {at + 1}]}}'
        for at in range(40)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_both_engines_on_pools_of_several_sizes(tmp_path: Path) -> None:
    path = mooncake(tmp_path / "a.jsonl")
    speed = {"prefill_tokens_per_second": 8_000.0, "decode_step_ms": 20.0}
    sglang = kvlab.traffic(path, pools=(24, 400), engine="sglang", **speed).load  # type: ignore[arg-type]
    vllm = kvlab.traffic(path, pools=(24, 400), **speed).load  # type: ignore[arg-type]
    assert sglang is not None
    assert vllm is not None
    assert (sglang.engine, vllm.engine) == ("sglang", "vllm")
    for load in (sglang, vllm):
        small, large = load.pools
        assert small.finished == large.finished == 40
        assert small.preemptions > 0 == large.preemptions
        assert small.ttft.p99 > large.ttft.p99
    drawn = preemptions(sglang)
    assert drawn is not None
    assert drawn.title == "Retractions over the size of the pool"


def test_the_terminal_calls_them_retractions_and_says_that_sglang_did_not_run(tmp_path: Path) -> None:
    found = kvlab.traffic(
        mooncake(tmp_path / "a.jsonl"),
        pools=(24,),
        engine="sglang",
        prefill_tokens_per_second=8_000.0,
        decode_step_ms=20.0,
    )
    console = Console(width=200, record=True, file=StringIO())
    console.print(on_terminal(found))
    text = console.export_text()
    assert "retractions" in text
    assert "preemptions" not in text
    assert "it did not run here" in text


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"pools": (9,), "engine": "sglnag"}, "'sglnag' is not simulated; did you mean sglang"),
        ({"engine": "sglang"}, "give --pool N"),
        ({"pools": (9,), "engine": "sglang", "max_num_batched_tokens": 100}, "computes whole pages"),
    ],
)
def test_engines_that_cannot_be_simulated(tmp_path: Path, asked: dict[str, object], why: str) -> None:
    speed = {"prefill_tokens_per_second": 1.0, "decode_step_ms": 1.0} if "pools" in asked else {}
    with pytest.raises(BadInput, match=why):
        kvlab.traffic(mooncake(tmp_path / "a.jsonl"), **asked, **speed)  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", sorted(known()))
def test_every_scheduler_has_a_page_with_its_sources(engine: str) -> None:
    title, parts = page(engine)
    assert title
    assert tuple(parts) == PARTS
    assert all(link.startswith("https://") for link in parts["Source"].split())
    assert scheduler(engine).definition
