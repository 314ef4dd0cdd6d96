"""vLLM: preemption by recomputation.

Admits: waiting requests are admitted first come first served, each when all of its prompt fits beside what runs; a
step computes `--max-num-batched-tokens` at most, running requests first, in the order in which they were admitted,
and cuts prompts that are longer (chunked prefill).

Full pool: when a running request finds no free block, the one that was admitted last gives up all of its blocks and
waits at the front of the queue, to be computed again. Nothing is admitted in a step with a preemption.

Assumed: full attention; prefixes are shared in whole blocks; the answer of one request is no prefix of another.

Checked: against vLLM 0.32 on a CPU: the cached tokens of 120 of 120 requests, and a series of 12 requests with 3
preemptions, each state that was scraped or logged.

Source: https://docs.vllm.ai/en/latest/usage/v1_guide.html https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

from kvlab.workload.scheduler import Job, Plan, Simulation
from kvlab.workload.schedulers._rule import Scheduler


class _Recomputing(Simulation):
    def _step(self, next_arrival: float) -> bool:
        plan = self._schedule()
        if plan:
            self._compute(plan, self._alike(plan, next_arrival))
        return bool(plan)

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

    def _admit(self, job: Job, budget: int) -> int | None:
        """Tokens that its first step computes; None when its prompt does not fit."""
        found = self._reusable(job)
        whole = -(-job.tokens // self._limits.block_size) - len(found) + self._pool.unused(found)
        if whole > self._pool.free:
            return None
        self._enter(job, found)
        count = min(job.tokens - job.computed, budget)
        job.blocks += self._pool.take(self._missing(job, job.computed + count))
        return count

    def _preempt(self, job: Job) -> None:
        self._give_up(job)
        self._waiting.appendleft(job)

    def _alike(self, plan: Plan, next_arrival: float) -> int:
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
            steps = min(steps, self._pace(plan).steps_in(next_arrival - self.time))
        return max(1, steps)

    def _filled(self, job: Job) -> None:
        whole = job.computed // self._limits.block_size
        for at in range(job.named, whole):
            self._pool.name(job.blocks[at], job.hash_of(at))
        job.named = max(job.named, whole)

    def _rest(self) -> None:
        """Nothing is kept from step to step."""

    def _leave(self, job: Job) -> None:
        self._pool.release(job.blocks)


SCHEDULER = Scheduler(
    simulation=_Recomputing,
    most_sequences=128,
    most_tokens=2048,
    preemptions="preemptions",
    definition=(
        "vLLM's scheduler in discrete steps: running requests first, then admission in the order of arrival when the"
        " whole prompt fits; chunked prefill; with no block left the request admitted last is preempted and computed"
        " again; prefixes are shared, answers are not; a step takes --decode-step and its prefill tokens at"
        " --prefill-speed"
    ),
)
