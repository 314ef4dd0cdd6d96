"""The pool that a plan or a server states, and what evicting the least recently used of it would give."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvlab.core.plan import Plan


class Visit(NamedTuple):
    """One request of the walk: which prefix, and its prompt tokens as the engine counts them."""

    prefix: int
    prompt_tokens: int | None


class Pool(NamedTuple):
    """What is stated of a cache; None where it is not."""

    tokens: int | None = None
    block_size: int | None = None
    blocks: int | None = None
    """Blocks that requests can hold, where every token takes its place in one block alone."""
    slots: int | None = None
    """Sequences that are kept, one for each slot, where there are no blocks."""
    told_by: str | None = None

    @property
    def words(self) -> str:
        """What is simulated, in words."""
        if self.blocks is not None:
            return f"{self.blocks:,} blocks of {self.block_size:,} tokens, the least recently used evicted first"
        return f"{self.slots:,} slots of a sequence each, the least recently used taken first"

    def simulated(self, visits: Sequence[Visit], prefix_tokens: int) -> list[int] | None:
        """Prefix tokens that each visit would find; None when the pool's parts are not stated."""
        if self.blocks is not None and self.block_size is not None:
            return _of_blocks(visits, prefix_tokens, self.blocks, self.block_size)
        return None if self.slots is None else _of_slots(visits, prefix_tokens, self.slots)


def planned(plan: Plan) -> Pool:
    """The pool of a plan; nothing is stated by one without a capacity."""
    capacity = plan.capacity
    if capacity is None:
        return Pool()
    return _checked(Pool(capacity.tokens, capacity.block_size, capacity.num_blocks, None, "the plan"))


def stated(numbers: Mapping[str, float]) -> Pool:
    """The pool by a server's own numbers, under kvlab's words."""
    found = {name: int(value) for name, value in numbers.items()}
    if "block_size" in found:
        blocks = found.get("kv_usable_blocks", found.get("num_gpu_blocks"))
        return _checked(Pool(found.get("kv_tokens"), found["block_size"], blocks, None, "the server"))
    if "slots" in found and "n_ctx_slot" in found:
        return Pool(found["slots"] * found["n_ctx_slot"], None, None, found["slots"], "the server")
    tokens = found.get("kv_tokens")
    return Pool() if tokens is None else Pool(tokens, None, None, None, "the server")


def merged(plan: Pool, server: Pool) -> Pool:
    """The plan's pool where there is one, with the server's count of blocks where both have as many, less one empty."""
    if plan.tokens is None:
        return server
    if plan.blocks is not None and server.blocks is not None and 0 <= plan.blocks - server.blocks <= 1:
        return plan._replace(blocks=server.blocks)
    return plan


def _checked(pool: Pool) -> Pool:
    """Without the blocks where they hold another number of tokens: groups of layers then share or split them."""
    tokens, size, blocks = pool.tokens, pool.block_size, pool.blocks
    if size is None or blocks is None:
        return pool
    if tokens is None:
        return pool._replace(tokens=blocks * size)
    return pool if 0 <= tokens - blocks * size <= size else pool._replace(blocks=None)


def _of_blocks(visits: Sequence[Visit], prefix_tokens: int, blocks: int, size: int) -> list[int]:
    """The pool of vLLM, one request at a time; blocks with a part of what follows the prefix are found by nobody."""
    from kvlab.workload.blockpool import BlockPool
    from kvlab.workload.scheduler import Job, Limits, Speed
    from kvlab.workload.schedulers import scheduler

    whole = prefix_tokens // size
    jobs = [
        Job(at, float(at) * 1e6, visit.prompt_tokens or 0, 1, [visit.prefix * (whole + 1) + n for n in range(whole)])
        for at, visit in enumerate(visits)
    ]
    simulation = scheduler("vllm").simulation
    simulation(BlockPool(blocks), Limits(size, 1), Speed(1e-3, 0.0), lambda state: None).run(jobs)
    return [job.hit or 0 for job in jobs]


def _of_slots(visits: Sequence[Visit], prefix_tokens: int, slots: int) -> list[int]:
    held: OrderedDict[int, None] = OrderedDict()
    found = []
    for visit in visits:
        hit = visit.prefix in held
        found.append(prefix_tokens if hit else 0)
        held.pop(visit.prefix, None)
        held[visit.prefix] = None
        if len(held) > slots:
            held.popitem(last=False)
    return found
