"""Two runs of a real vLLM 0.32, request by request: what it took from its cache, and what it preempted."""

from __future__ import annotations

import csv
import json
from itertools import groupby
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvlab
from kvlab.core.errors import BadInput
from kvlab.workload.blockpool import BlockPool
from kvlab.workload.scheduler import Job, Limits, Speed, State
from kvlab.workload.schedulers import scheduler

GOLDEN = Path(__file__).parents[1] / "golden" / "traces"
USABLE = 100
"""Of the 101 blocks that the server was given, one is the null block."""
Simulation = scheduler("vllm").simulation
LIMITS = Limits(block_size=32, most_sequences=16, most_tokens=2048)
SPEED = Speed(step=1.0, prefill_token=0.03)


def prompts() -> list[tuple[int, list[int], int]]:
    """Prompt tokens, hashes of whole blocks, and the tokens that the server took from its cache, of 120 requests."""
    names: dict[tuple[object, ...], int] = {}
    found = []
    for row in json.loads((GOLDEN / "vllm_prefix_phase.json").read_text()):
        ids = []
        for at in range(row["prompt_tokens"] // 32):
            shared = (at + 1) * 32 <= row["prefix_len"]
            key = ("prefix", row["prefix"], at) if shared else ("own", row["k"], at)
            ids.append(names.setdefault(key, len(names)))
        found.append((row["prompt_tokens"], ids, row["cached_tokens"]))
    return found


def test_120_requests_hit_what_the_engine_said_of_each() -> None:
    rows = prompts()
    jobs = [Job(at, 1000.0 * at, length, 1, ids) for at, (length, ids, _) in enumerate(rows)]
    Simulation(BlockPool(USABLE), LIMITS, SPEED, lambda state: None).run(jobs)
    assert [job.hit for job in jobs] == [cached for _, _, cached in rows]
    assert sum(job.hit or 0 for job in jobs) == 22_080


def test_12_requests_preempt_as_the_engine_did() -> None:
    """12 prompts of 96 tokens with answers of 240 in a pool of 3,200; they had been asked before."""
    pool = BlockPool(USABLE)
    hashes = [[100 * at + block for block in range(3)] for at in range(12)]
    Simulation(pool, LIMITS, SPEED, lambda state: None).run(
        [Job(100 + at, 0.0, 96, 1, ids) for at, ids in enumerate(hashes)]
    )
    states: list[State] = []
    jobs = [Job(at, 0.0 if at == 0 else 1.5, 96, 240, ids) for at, ids in enumerate(hashes)]
    Simulation(pool, LIMITS, SPEED, states.append).run(jobs)

    with (GOLDEN / "vllm_preemption_series.csv").open() as file:
        rows = list(csv.DictReader(file))
    simulated = [key for key, _ in groupby((state.running, state.waiting, state.used) for state in states)]
    for source in ("scrape", "log"):
        seen = [
            (int(row["running"]), int(row["waiting"]), int(row["used_blocks"]))
            for row in rows
            if row["source"] == source
        ]
        places = iter(simulated)
        assert len(set(seen)) >= 11
        assert all(one in places for one in [key for key, _ in groupby(seen)]), "every state that was seen, in order"
    assert sum(job.preemptions for job in jobs) == 3
    assert [job.hit for job in jobs] == [64] * 12
    assert all(job.done == 240 for job in jobs)
    # the three that were preempted are those that took longest
    latest = sorted(jobs, key=lambda job: job.finished or 0)[-3:]
    assert {job.number for job in latest} == {job.number for job in jobs if job.preemptions}


@settings(max_examples=80, deadline=None)
@given(
    st.lists(
        st.tuples(st.floats(0, 20), st.integers(1, 60), st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=15
    ),
    st.integers(4, 40),
)
def test_no_block_is_lost_and_every_request_that_fits_ends(rows: list[tuple[float, int, int, int]], size: int) -> None:
    jobs = [
        Job(at, time, prompt, answer, [1000 * group + block for block in range(prompt // 4)])
        for at, (time, prompt, answer, group) in enumerate(rows)
    ]
    pool = BlockPool(size)
    states: list[State] = []
    Simulation(pool, Limits(4, 8, 16), Speed(0.5, 0.01, 0.01), states.append).run(jobs)
    assert pool.free == size
    assert all(0 <= state.used <= size for state in states)
    for job in jobs:
        fits = -(-(job.prompt + job.answer) // 4) <= size
        assert (job.finished is not None) == fits
        if fits:
            assert job.done == job.answer
            assert job.first_token is not None
            assert job.arrival <= (job.admitted or 0) < job.first_token


def test_a_larger_pool_never_makes_a_trace_wait_longer() -> None:
    found = kvlab.traffic(
        GOLDEN / "mooncake_synthetic_trace.jsonl.gz",
        pools=(2_000, 8_000),
        prefill_tokens_per_second=60_000.0,
        decode_step_ms=20.0,
    ).load
    assert found is not None
    small, large = found.pools
    assert small.finished == large.finished == 3_993
    assert small.waited.p99 > large.waited.p99
    assert small.ttft.p50 > large.ttft.p50
    # what an endless cache hits bounds what any pool does
    assert small.hit_tokens is not None
    assert large.hit_tokens is not None
    assert small.hit_tokens < large.hit_tokens < 77_953 * 512
    assert small.too_large == 0


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"pools": (100,)}, "needs the engine's speed"),
        ({"decode_step_ms": 20.0}, "give --pool"),
        ({"pools": (0,), "prefill_tokens_per_second": 1.0, "decode_step_ms": 1.0}, "--pool takes"),
        ({"pools": ("5GiB",), "prefill_tokens_per_second": 1.0, "decode_step_ms": 1.0}, "--pool '5GiB' is in bytes"),
        ({"pools": (1,), "prefill_tokens_per_second": 1.0, "decode_step_ms": 1.0}, "no request of the trace fits"),
        ({"pools": (1 << 25,), "prefill_tokens_per_second": 1.0, "decode_step_ms": 1.0}, "takes up to"),
        (
            {"pools": (9,), "prefill_tokens_per_second": 1.0, "decode_step_ms": 1.0, "max_num_seqs": 0},
            "must be at least 1",
        ),
    ],
)
def test_pools_that_cannot_be_simulated(tmp_path: Path, asked: dict[str, object], why: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"timestamp": 0, "input_length": 600, "output_length": 1, "hash_ids": [0, 1]}\n')
    with pytest.raises(BadInput, match=why):
        kvlab.traffic(path, **asked)  # type: ignore[arg-type]
