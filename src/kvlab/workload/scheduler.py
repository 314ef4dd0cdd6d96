"""A discrete-event simulation of an engine that serves requests on a pool of blocks: what all engines have in common.

A step computes tokens of some requests; which, and who gives up its blocks when none is free, is the engine's rule
(`schedulers/`). Blocks of a prompt that the cache holds are not computed, except the one with its last token. Answers
are blocks of their own that no other request shares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from math import inf, sqrt
from typing import NamedTuple

from kvlab.workload.blockpool import BlockPool


class Speed(NamedTuple):
    """What a step takes: a time of its own, and a time for each token of prefill and of decode. In seconds."""

    step: float
    prefill_token: float
    decode_token: float = 0.0
    held_token: float = 0.0
    """For each token in the cache of a request that decodes: its attention reads them all."""


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


Watch = Callable[[State], None]
"""Is told the state after every step."""
Plan = Sequence[tuple[Job, int]]
"""What a step computes: how many tokens of which requests."""


class Pace(NamedTuple):
    """Seconds of the first of several steps, and how much longer each takes than the one before it."""

    first: float
    growth: float

    def seconds(self, steps: int) -> float:
        """Of so many steps."""
        return self.first * steps + self.growth * (steps * (steps - 1) // 2)

    def steps_in(self, seconds: float) -> int:
        """Steps until so much time has passed: the last of them ends after it."""
        if not self.growth:
            return int(seconds / self.first) + 1 if self.first else 1
        middle = self.first - self.growth / 2  # n steps take middle n + growth n n / 2, solved for n
        return int((sqrt(middle * middle + 2 * self.growth * max(0.0, seconds)) - middle) / self.growth) + 1


class Simulation(ABC):
    """Requests in the order in which they arrive, on one pool."""

    def __init__(self, pool: BlockPool, limits: Limits, speed: Speed, watch: Watch) -> None:
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
                self._rest()
                self.time = max(self.time, coming[0].arrival)
            while coming and coming[0].arrival <= self.time:
                job = coming.popleft()
                if -(-(job.prompt + job.answer) // self._limits.block_size) <= self._pool.size:
                    self._waiting.append(job)
            if not self._step(coming[0].arrival if coming else inf) and not self._running and self._waiting:
                self._waiting.popleft()  # nothing runs and it does not fit: it never will

    @abstractmethod
    def _step(self, next_arrival: float) -> bool:
        """One step, or several that are alike and begin before `next_arrival`; whether there was anything to do."""

    @abstractmethod
    def _leave(self, job: Job) -> None:
        """The request is done with its blocks."""

    @abstractmethod
    def _rest(self) -> None:
        """Nothing runs and nothing waits."""

    @abstractmethod
    def _filled(self, job: Job) -> None:
        """A step has computed tokens of the request."""

    def _compute(self, plan: Plan, steps: int = 1) -> None:
        """Runs so many steps, each with one more token of a request than the last."""
        seconds = self._pace(plan).seconds(steps)
        self.time += seconds
        self.busy_blocks += (self._pool.size - self._pool.free) * seconds
        finished = False
        for job, count in plan:
            job.computed += count + steps - 1
            job.done += steps - 1
            self._filled(job)
            if job.computed == job.tokens:
                job.done += 1
                if job.first_token is None:
                    job.first_token = self.time
                if job.done == job.answer:
                    job.finished = self.time
                    self._leave(job)
                    finished = True
        if finished:
            self._running = [job for job in self._running if job.finished is None]
        self._watch(State(self.time, len(self._running), len(self._waiting), self._pool.size - self._pool.free))

    def _pace(self, plan: Plan) -> Pace:
        prefill = sum(count for job, count in plan if count > 1 or job.computed < job.prompt)
        decode = sum(count for _, count in plan) - prefill
        first = self._speed.step + prefill * self._speed.prefill_token + decode * self._speed.decode_token
        if not self._speed.held_token or not decode:
            return Pace(first, 0.0)
        held = sum(job.computed for job, count in plan if count == 1 and job.computed >= job.prompt)
        return Pace(first + held * self._speed.held_token, decode * self._speed.held_token)

    def _missing(self, job: Job, tokens: int) -> int:
        """Blocks that the request needs beside its own to hold so many tokens."""
        return max(0, -(-tokens // self._limits.block_size) - len(job.blocks))

    def _reusable(self, job: Job) -> list[int]:
        """Blocks of the request that the cache holds; its last token is computed in any case."""
        return self._pool.found([job.hash_of(at) for at in range((job.tokens - 1) // self._limits.block_size)])

    def _enter(self, job: Job, found: list[int]) -> None:
        """The request is admitted with these blocks."""
        self._pool.share(found)
        job.blocks, job.computed, job.named = list(found), len(found) * self._limits.block_size, len(found)
        if job.hit is None:
            job.hit, job.admitted = job.computed, self.time
        else:
            job.recomputed += job.tokens - job.computed

    def _give_up(self, job: Job) -> None:
        """The request loses its blocks, and will be computed again."""
        self._pool.release(job.blocks)
        job.blocks, job.computed, job.named = [], 0, 0
        job.preemptions += 1
