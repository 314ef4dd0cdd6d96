"""A discrete-event simulation of vLLM's scheduler: admission, chunked prefill, decode, preemption by recomputation.

In a step, running requests come first, in the order in which they were admitted: each gets the blocks for the tokens
that it computes. When none is free, the request admitted last gives up all of its blocks and waits at the front of the
queue, to be computed again. Only in a step without preemption are waiting requests admitted, first come first served,
each if its whole prompt fits. Blocks of a prompt that the cache holds are not computed, except the one with its last
token. Answers are blocks of their own that no other request shares.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kvlab.workload.blockpool import BlockPool


class Speed(NamedTuple):
    """What a step takes: a time of its own, and a time for each token of prefill and of decode. In seconds."""

    step: float
    prefill_token: float
    decode_token: float = 0.0


class Limits(NamedTuple):
    """The scheduler's own."""

    block_size: int
    most_sequences: int = 128
    most_tokens: int = 2048
    """Tokens that a step computes at most."""


class Job:
    """A request: its prompt as hashes of its whole blocks, and what became of it."""

    __slots__ = (
        *("number", "arrival", "prompt", "answer", "hashes", "computed", "done", "blocks", "named"),
        *("admitted", "first_token", "finished", "preemptions", "hit", "recomputed"),
    )

    def __init__(self, number: int, arrival: float, prompt: int, answer: int, hashes: Sequence[int]) -> None:
        self.number, self.arrival, self.prompt, self.answer = number, arrival, prompt, max(1, answer)
        self.hashes = hashes
        self.computed = self.done = self.named = self.preemptions = self.recomputed = 0
        self.blocks: list[int] = []
        self.admitted: float | None = None
        self.first_token: float | None = None
        self.finished: float | None = None
        self.hit: int | None = None

    @property
    def tokens(self) -> int:
        """Of the prompt, and of the answer so far."""
        return self.prompt + self.done

    def hash_of(self, at: int) -> int:
        """The hash of its whole block `at`: the log's, or one of its own."""
        return self.hashes[at] if at < len(self.hashes) else -1 - (self.number << 24 | at)


class State(NamedTuple):
    """After a step."""

    time: float
    running: int
    waiting: int
    used: int
    """Blocks that requests hold."""


class Simulation:
    """Requests in the order in which they arrive, on one pool. `watch` is told the state after every step."""

    def __init__(self, pool: BlockPool, limits: Limits, speed: Speed, watch: Callable[[State], None]) -> None:
        self._pool, self._limits, self._speed, self._watch = pool, limits, speed, watch
        self._running: list[Job] = []
        self._waiting: deque[Job] = deque()
        self.time = 0.0
        self.busy_blocks = 0.0
        """Blocks in use, times seconds."""

    def run(self, jobs: Sequence[Job]) -> None:
        """Until all are done, or can never be: a request larger than the pool is left unfinished."""
        coming = deque(sorted(jobs, key=lambda job: job.arrival))
        while coming or self._waiting or self._running:
            if not self._running and not self._waiting:
                self.time = max(self.time, coming[0].arrival)
            while coming and coming[0].arrival <= self.time:
                job = coming.popleft()
                if -(-(job.prompt + job.answer) // self._limits.block_size) <= self._pool.size:
                    self._waiting.append(job)
            plan = self._schedule()
            if plan:
                self._execute(plan, coming[0].arrival if coming else float("inf"))
            elif not self._running and self._waiting:
                self._waiting.popleft()  # nothing runs and it does not fit: it never will

    def _schedule(self) -> list[tuple[Job, int]]:
        plan: list[tuple[Job, int]] = []
        budget, preempted = self._limits.most_tokens, False
        at = 0
        while at < len(self._running) and budget > 0:
            job = self._running[at]
            count = min(job.tokens - job.computed, budget)
            missing = self._missing(job, job.computed + count)
            while self._pool.free < missing and at < len(self._running):
                self._preempt(self._running.pop())
                preempted = True
            if at >= len(self._running):  # it was the last one itself
                break
            job.blocks += self._pool.take(missing)
            plan.append((job, count))
            budget -= count
            at += 1
        while not preempted and self._waiting and budget > 0 and len(self._running) < self._limits.most_sequences:
            first = self._admit(self._waiting[0], budget)
            if first is None:
                break
            job = self._waiting.popleft()
            self._running.append(job)
            plan.append((job, first))
            budget -= first
        return plan

    def _missing(self, job: Job, tokens: int) -> int:
        return max(0, -(-tokens // self._limits.block_size) - len(job.blocks))

    def _admit(self, job: Job, budget: int) -> int | None:
        """Tokens that its first step computes; None when its prompt does not fit."""
        size = self._limits.block_size
        most = (job.tokens - 1) // size
        found = self._pool.found([job.hash_of(at) for at in range(most)])
        whole = -(-job.tokens // size) - len(found) + self._pool.unused(found)
        if whole > self._pool.free:
            return None
        self._pool.share(found)
        job.blocks, job.computed, job.named = list(found), len(found) * size, len(found)
        if job.hit is None:
            job.hit = job.computed
            job.admitted = self.time
        else:
            job.recomputed += job.tokens - job.computed
        count = min(job.tokens - job.computed, budget)
        job.blocks += self._pool.take(self._missing(job, job.computed + count))
        return count

    def _preempt(self, job: Job) -> None:
        self._pool.release(job.blocks)
        job.blocks, job.computed, job.named = [], 0, 0
        job.preemptions += 1
        self._waiting.appendleft(job)

    def _execute(self, plan: list[tuple[Job, int]], next_arrival: float) -> None:
        prefill = sum(count for job, count in plan if count > 1 or job.computed < job.prompt)
        decode = sum(count for _, count in plan) - prefill
        took = self._speed.step + prefill * self._speed.prefill_token + decode * self._speed.decode_token
        steps = self._alike(plan, took, next_arrival)
        self.time += took * steps
        self.busy_blocks += (self._pool.size - self._pool.free) * took * steps
        finished = False
        for job, count in plan:
            job.computed += count + steps - 1
            job.done += steps - 1
            self._name(job)
            if job.computed == job.tokens:
                job.done += 1
                if job.first_token is None:
                    job.first_token = self.time
                if job.done == job.answer:
                    job.finished = self.time
                    self._pool.release(job.blocks)
                    finished = True
        if finished:
            self._running = [job for job in self._running if job.finished is None]
        self._watch(State(self.time, len(self._running), len(self._waiting), self._pool.size - self._pool.free))

    def _alike(self, plan: list[tuple[Job, int]], took: float, next_arrival: float) -> int:
        """Steps that go by until one differs from this: all decode, no block fills, none ends, none comes."""
        size = self._limits.block_size
        steps = 1 << 30
        for job, count in plan:
            if count != 1 or job.computed + 1 != job.tokens:
                return 1
            steps = min(steps, job.answer - job.done - 1, len(job.blocks) * size - job.computed)
            if steps <= 1:
                return 1
        if len(plan) < len(self._running):
            return 1
        if next_arrival < float("inf"):
            steps = min(steps, int((next_arrival - self.time) / took) + 1 if took else 1)
        return max(1, steps)

    def _name(self, job: Job) -> None:
        for at in range(job.named, job.computed // self._limits.block_size):
            self._pool.name(job.blocks[at], job.hash_of(at))
        job.named = max(job.named, job.computed // self._limits.block_size)
