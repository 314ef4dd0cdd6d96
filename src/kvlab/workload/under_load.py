"""The traffic of a trace on pools of several sizes, simulated: waiting, time to first token, preemptions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from kvlab.core.errors import BadInput
from kvlab.core.trace import Trace
from kvlab.core.traffic import Lengths, PoolLoad, UnderLoad
from kvlab.workload.beside import whole_blocks
from kvlab.workload.blockpool import BlockPool
from kvlab.workload.lengths import Column, lengths
from kvlab.workload.questions import BLOCK, Questions, Tell
from kvlab.workload.scheduler import Job, Limits, Speed, State
from kvlab.workload.schedulers import Scheduler, scheduler

_MOST = 1 << 24
"""Blocks of a simulated pool: each is kept in memory."""
_ENGINE = "vllm"
"""Simulated where none is named."""


def under_load(trace: Trace, asked: Questions, tell: Tell) -> UnderLoad | None:
    """What every pool of `asked.pools` makes of the trace; None when none is asked for. Raises BadInput."""
    if not asked.pools:
        if asked.decode_step_ms is not None and asked.prefill_tokens_per_second is None:
            raise BadInput("--decode-step: give --pool N to simulate one, or --prefill-speed for the requests at once")
        if asked.engine is not None:
            raise BadInput("the engine is that of a simulated pool: give --pool N")
        return None
    engine = asked.engine or _ENGINE
    rule = scheduler(engine)
    if asked.prefill_tokens_per_second is None or asked.decode_step_ms is None:
        raise BadInput("--pool needs the engine's speed: --prefill-speed TOKENS/S and --decode-step MS")
    if trace.arrivals is None or trace.outputs is None:
        raise BadInput(
            "--pool needs to know when requests came and how long their answers were, and the trace does not say"
        )
    size = trace.blocks.size if trace.blocks is not None else asked.block_size or BLOCK
    limits = _limits(asked, rule, size)
    speed = Speed(asked.decode_step_ms / 1000, 1 / asked.prefill_tokens_per_second)
    pools = whole_blocks(asked.pools, size, asked.bytes_per_token, "--pool")
    if max(pools) > _MOST:
        raise BadInput(f"--pool takes up to {_MOST:,} blocks")
    load = _Load(trace, rule, limits, speed)
    found = []
    for number, blocks in enumerate(pools):
        tell(f"simulating a pool of {blocks:,} blocks ({number + 1} of {len(pools)})")
        found.append(load.on(blocks, asked.bytes_per_token))
    return UnderLoad(
        block_size=size,
        pools=tuple(found),
        definition=f"{rule.definition}; {_said(limits)}",
        engine=engine,
        preemption_word=rule.preemptions,
    )


def _said(limits: Limits) -> str:
    return f"up to {limits.most_sequences:,} requests at a time and {limits.most_tokens:,} tokens a step"


def _limits(asked: Questions, rule: Scheduler, size: int) -> Limits:
    """As asked, and the engine's own where nothing is. Raises BadInput."""
    sequences = rule.most_sequences if asked.max_num_seqs is None else asked.max_num_seqs
    tokens = rule.most_tokens if asked.max_num_batched_tokens is None else asked.max_num_batched_tokens
    if sequences < 1 or tokens < 1:
        raise BadInput("--max-num-seqs and --max-num-batched-tokens must be at least 1")
    return Limits(size, sequences, tokens)


class _Load:
    """One traffic on one engine."""

    def __init__(self, trace: Trace, rule: Scheduler, limits: Limits, speed: Speed) -> None:
        self._trace, self._rule, self._limits, self._speed = trace, rule, limits, speed

    def on(self, blocks: int, bytes_per_token: int | None) -> PoolLoad:
        """What a pool of so many blocks makes of it. Raises BadInput when it holds none of the requests."""
        size = self._limits.block_size
        jobs = _jobs(self._trace, size)
        most = 0

        def watch(state: State) -> None:
            nonlocal most
            most = max(most, state.running)

        simulation = self._rule.simulation(BlockPool(blocks), self._limits, self._speed, watch)
        simulation.run(jobs)
        done = [job for job in jobs if job.finished is not None]
        if not done:
            raise BadInput(f"--pool {blocks:,}: no request of the trace fits into so many blocks of {size} tokens")
        start = min(job.arrival for job in done)
        span = simulation.time - start
        return PoolLoad(
            pool_blocks=blocks,
            pool_bytes=None if bytes_per_token is None else blocks * size * bytes_per_token,
            finished=len(done),
            too_large=len(jobs) - len(done),
            waited=_milliseconds([(job.admitted or 0.0) - job.arrival for job in done]),
            ttft=_milliseconds([(job.first_token or 0.0) - job.arrival for job in done]),
            preemptions=sum(job.preemptions for job in done),
            preempted_requests=sum(job.preemptions > 0 for job in done),
            recomputed_tokens=sum(job.recomputed for job in done),
            hit_tokens=None if self._trace.blocks is None else sum(job.hit or 0 for job in done),
            most_running=most,
            mean_use=simulation.busy_blocks / (blocks * span) if span else 0.0,
            seconds=span,
        )


def _milliseconds(amounts: Sequence[float]) -> Lengths:
    whole = np.array([max(0, round(1000 * amount)) for amount in amounts], dtype=np.int64)
    return lengths(Column(whole))


def _jobs(trace: Trace, size: int) -> list[Job]:
    assert trace.arrivals is not None
    assert trace.outputs is not None
    rows = zip(trace.arrivals.tolist(), trace.inputs.tolist(), trace.outputs.tolist(), strict=True)
    hashes: list[list[int]] = [[]] * len(trace.inputs)
    if trace.blocks is not None:
        ids = trace.blocks.ids.tolist()
        hashes = [ids[begin:end] for begin, end in pairwise(trace.blocks.offsets.tolist())]
    return [
        Job(at, time, max(1, prompt), answer, hashes[at][: prompt // size])
        for at, (time, prompt, answer) in enumerate(rows)
    ]
