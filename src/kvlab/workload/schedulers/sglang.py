"""SGLang: retraction.

Admits: waiting requests come first: as long as one is admitted, nothing decodes. In the order of the queue each is
admitted when the tokens of its prompt that the radix cache lacks, its answer and one page are less than what is free
or can be evicted, once tokens are kept for the others: `new_token_ratio` times the remaining answer of each running
request, and the whole answer of each that is admitted in the same batch (no answer counts for more than 4,096 tokens).
The ratio begins at 0.7 x `--schedule-conservativeness` and falls to 0.14 of that in 600 decode steps. A batch computes
`--chunked-prefill-size` tokens and cuts the last prompt there; `--max-running-requests` bounds how many run. Once one
was refused, none is tried until a request ends or is retracted.

Full pool: before a decode step that would find no page, cached tokens are evicted, least recently used first, and then
requests are retracted, one at least, until the step fits: the one with the fewest answered tokens first, of those the
one with the longest prompt; the last one stays. A retracted request keeps its answer and goes to the end of the queue.
Its own tokens are freed; its prompt stays in the radix cache, unless less than 20 tokens for each request that remains
are then free: they are evicted at once. The ratio becomes (answered tokens + 20 a request) / (tokens asked for + 1) of
those that remain.

Assumed: SGLang did not run here. Requests ask for as many tokens as they answer (a larger `max_tokens` keeps more
free: fewer retractions, more waiting); `--schedule-policy fcfs`, no priorities, no mixed chunks, no speculative
decoding, no overlap of one step with the next; a page is a block of the trace; eviction is by pages, not by nodes.

Checked: against published runs of SGLang 0.5.18 (Qwen3-4B on an RTX 4090, pool of 87,552 tokens, 120 requests,
`github.com/HwaminJung00/sglang-peak-kv-admission`), with a step's time fitted to their log: at 0.5, 0.6, 0.8, 1, 2 and
4 requests a second 0, 1, 4, 7, 20 and 28 retractions, where the engine counted 0, 1, 4, 7, 20 and 29; at 0.8 and 2 a
second the same requests in the same order; the 99th percentile of the time to first token within 15 %, tokens computed
again within 8 %. At 8 a second it is 15 of 28: early on, one request that the engine took is refused because 458 tokens
are missing, and nothing after it is the same.

Source: https://github.com/sgl-project/sglang/blob/v0.5.18/python/sglang/srt/managers/schedule_policy.py
https://github.com/sgl-project/sglang/blob/v0.5.18/python/sglang/srt/managers/schedule_batch.py
https://github.com/sgl-project/sglang/blob/v0.5.18/python/sglang/srt/managers/scheduler.py
https://github.com/sgl-project/sglang/blob/v0.5.18/python/sglang/srt/managers/scheduler_components/new_token_ratio_tracker.py
https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from kvlab.core.errors import BadInput
from kvlab.workload.blockpool import BlockPool
from kvlab.workload.scheduler import Job, Limits, Simulation, Speed, Watch
from kvlab.workload.schedulers._ratio import AHEAD, NewTokenRatio
from kvlab.workload.schedulers._rule import Scheduler

_CLIP = 4096
"""SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION: of no answer are more tokens kept free."""


class Retraction(NamedTuple):
    """As the log tells it: "KV cache pool is full. Retract requests. #retracted_reqs: ..."."""

    time: float
    requests: tuple[int, ...]
    answered: tuple[int, ...]
    """Tokens that each of them had answered."""
    gained: int
    """Tokens that are free then and were not before (#new_tokens_gained)."""
    before: float
    after: float
    """The new_token_ratio."""


class _Batch:
    """What is left of one prefill batch's budgets."""

    def __init__(self, chunk: int, kept: float) -> None:
        self.chunk, self.kept, self.rounding = chunk, kept, 0

    def charge(self, count: int, page: int, answer: int) -> None:
        """`count` tokens are computed now, and `answer` tokens are kept free."""
        self.chunk -= -(-count // page) * page
        self.kept += page + answer
        self.rounding += page


class Retracting(Simulation):
    """SGLang's scheduler."""

    def __init__(self, pool: BlockPool, limits: Limits, speed: Speed, watch: Watch) -> None:
        super().__init__(pool, limits, speed, watch)
        if limits.most_tokens < limits.block_size:
            raise BadInput(
                f"SGLang computes whole pages: {limits.most_tokens:,} tokens a step (--max-num-batched-tokens) are less"
                f" than a block of {limits.block_size:,}"
            )
        self.ratio = NewTokenRatio()
        self.retractions: list[Retraction] = []
        self._full = False
        self._cut: Job | None = None
        """The request whose prompt is computed in several batches; it is the last of those that run."""

    def _rest(self) -> None:
        self.ratio.reset()
        self._full = False

    def _step(self, next_arrival: float) -> bool:
        plan = self._prefill()
        if plan:
            self._run(plan, 1)
            for job, _ in plan:
                if job.finished is None:
                    self._insert(job)
            return True
        if not self._running:
            self._full = False
            return False
        retracted = self._make_room()
        steps = self._steps(next_arrival)
        for job in self._running:
            job.blocks += self._pool.take(self._missing(job, job.computed + steps))
        self.ratio.decay(steps - retracted)
        self._run([(job, 1) for job in self._running], steps)
        return True

    def _run(self, plan: Sequence[tuple[Job, int]], steps: int) -> None:
        before = len(self._running)
        self._compute(plan, steps)
        if len(self._running) < before:
            self._full = False

    def _prefill(self) -> list[tuple[Job, int]]:
        """The next batch of prompts; none when there is nothing to admit, or no room for it."""
        if self._cut is None and (self._full or not self._waiting):
            return []
        decoding = (job for job in self._running if job is not self._cut)
        kept = sum(min(job.answer - job.done, _CLIP) for job in decoding) * self.ratio.now
        batch = _Batch(self._limits.most_tokens, kept)
        plan = [] if self._cut is None else [self._go_on(self._cut, batch)]
        while self._waiting and batch.chunk > 0 and not self._full:
            if len(self._running) >= self._limits.most_sequences or (plan and self._spent(batch)):
                self._full = True
                break
            count = self._admit(self._waiting[0], batch)
            if count is None:
                self._full = True
            elif not count:
                break
            else:
                job = self._waiting.popleft()
                self._running.append(job)
                plan.append((job, count))
        return plan

    def _spent(self, batch: _Batch) -> bool:
        room = self._pool.free * self._limits.block_size
        return room - batch.kept <= 0 or room - batch.rounding <= 0

    def _admit(self, job: Job, batch: _Batch) -> int | None:
        """Tokens of its prompt that the batch computes: None when memory is short, 0 when the batch is full."""
        page = self._limits.block_size
        found = self._reusable(job)
        left = job.tokens - len(found) * page
        room = (self._pool.free - self._pool.unused(found)) * page - batch.kept
        if left + min(job.answer - job.done, _CLIP) + page >= room:
            return None
        whole = -(-left // page) * page <= batch.chunk
        count = left if whole else batch.chunk // page * page
        if not count:
            return 0
        self._enter(job, found)
        job.blocks += self._pool.take(self._missing(job, job.computed + count))
        batch.charge(count, page, min(job.answer, _CLIP) if whole else 0)
        self._cut = None if whole else job
        return count

    def _go_on(self, job: Job, batch: _Batch) -> tuple[Job, int]:
        page = self._limits.block_size
        left, room = job.tokens - job.computed, int(self._pool.free * page - batch.kept)
        count = min(left, batch.chunk, room if room > 0 else batch.chunk)
        job.blocks += self._pool.take(self._missing(job, job.computed + count))
        batch.charge(count, page, min(job.answer, _CLIP) if count == left else 0)
        if count == left:
            self._cut = None
        return job, count

    def _make_room(self) -> bool:
        """Retracts until the next decode step fits; whether that was necessary."""
        order = self._running
        if self._needed(order, 1) <= self._pool.free:
            return False
        self._pool.evict(self._needed(order, 1))
        order = sorted(order, key=lambda job: (job.done, -job.prompt), reverse=True)
        before, empty = self.ratio.now, self._pool.empty
        gone: list[Job] = []
        while len(order) > 1 and (not gone or self._needed(order, 1) > self._pool.free):
            job = order.pop()
            self._give_up(job)
            self._pool.evict(-(-AHEAD * len(order) // self._limits.block_size))
            gone.append(job)
        names = {job.number for job in gone}
        self._running = [job for job in self._running if job.number not in names]
        self._waiting.extend(gone)
        self.ratio.retracted(self._running)
        self._full = False
        gained = (self._pool.empty - empty) * self._limits.block_size
        answered = tuple(job.done for job in gone)
        numbers = tuple(job.number for job in gone)
        self.retractions.append(Retraction(self.time, numbers, answered, gained, before, self.ratio.now))
        return True

    def _needed(self, jobs: Sequence[Job], steps: int) -> int:
        return sum(self._missing(job, job.computed + steps) for job in jobs)

    def _steps(self, next_arrival: float) -> int:
        """Decode steps until a request ends, the pool is full, or the next one comes."""
        most = min(job.answer - job.done for job in self._running)
        if next_arrival < float("inf"):
            pace = self._pace([(job, 1) for job in self._running])
            most = min(most, pace.steps_in(next_arrival - self.time))
        fitting = bisect_right(
            range(1, most + 1), self._pool.free, key=lambda steps: self._needed(self._running, steps)
        )
        return max(1, fitting)

    def _insert(self, job: Job) -> None:
        """Its whole pages join the radix cache; where that has one already, the request takes that one."""
        whole = job.computed // self._limits.block_size
        for at in range(job.named, whole):
            value = job.hash_of(at)
            known = self._pool.found([value])
            if known:
                self._pool.share(known)
                self._pool.release([job.blocks[at]])
                job.blocks[at] = known[0]
            else:
                self._pool.name(job.blocks[at], value)
        job.named = max(job.named, whole)

    def _filled(self, job: Job) -> None:
        """Pages of a prompt join the cache after its batch, those of an answer when it ends."""

    def _leave(self, job: Job) -> None:
        self._insert(job)
        self._pool.release(job.blocks)


SCHEDULER = Scheduler(
    simulation=Retracting,
    most_sequences=2048,
    most_tokens=8192,
    preemptions="retractions",
    definition=(
        "SGLang's scheduler (0.5.18, from its sources: it did not run here) in discrete steps: waiting requests first,"
        " in the order of the queue, each when its prompt, its answer and new_token_ratio of what the others still"
        " answer fit; chunked prefill; with no page left for a decode step the request with the fewest answered tokens"
        " is retracted to the end of the queue; requests ask for as many tokens as they answer; a step takes"
        " --decode-step and its prefill tokens at --prefill-speed"
    ),
)
