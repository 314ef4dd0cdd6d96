"""What is asked beside the LRU curve: other policies, tiers, replicas."""

from __future__ import annotations

from collections.abc import Sequence

from kvlab.core.errors import BadInput, nearest
from kvlab.core.trace import Blocks
from kvlab.core.traffic import PolicyPoint
from kvlab.workload.policies import POLICIES
from kvlab.workload.questions import Questions
from kvlab.workload.replicas import lru_hits, replicas
from kvlab.workload.reuse import part_of
from kvlab.workload.tiers import MOST_BLOCKS, Costs, blocks_in, tier, tiers

_MOST_REPLICAS = 1024


def whole_blocks(asked: Sequence[int | str], size: int, bytes_per_token: int | None, what: str) -> tuple[int, ...]:
    """Capacities in blocks; `what`: the option that asked for them. Raises BadInput."""
    block = None if bytes_per_token is None else size * bytes_per_token
    found = tuple(at if isinstance(at, int) else blocks_in(at, block, what) for at in asked)
    if any(not 1 <= at <= MOST_BLOCKS for at in found):
        raise BadInput(f"{what} takes numbers of blocks from 1 to {MOST_BLOCKS:,}")
    return found


def beside(blocks: Blocks, capacities: Sequence[int], asked: Questions) -> dict[str, object]:
    """Fields of `Reuse` beside the curve. Raises BadInput."""
    if asked.last_half and (asked.policies or asked.tiers or asked.replicas):
        raise BadInput("--policy, --tiers and --replicas measure the whole trace; leave out --last-half")
    found: dict[str, object] = {}
    if asked.policies:
        found["policies"] = _policies(blocks, capacities, asked.policies)
    if asked.tiers:
        block = None if asked.bytes_per_token is None else blocks.size * asked.bytes_per_token
        chain = [tier(text, block) for text in asked.tiers]
        costs = Costs(asked.bytes_per_token, asked.prefill_tokens_per_second)
        found["tiers"] = tiers(blocks, chain, asked.inclusive, costs)
    elif asked.inclusive or prefill_alone(asked):
        raise BadInput(
            "--inclusive is about tiers, --prefill-speed about them or pools: give --tiers gpu:N,cpu:N or --decode-step"
        )
    if asked.replicas is not None:
        if not 2 <= asked.replicas <= _MOST_REPLICAS:
            raise BadInput(f"--replicas {asked.replicas} must be from 2 to {_MOST_REPLICAS:,}")
        if not capacities:
            raise BadInput("--replicas needs --capacity N: the blocks that each replica caches")
        found["replicas"] = replicas(blocks, asked.replicas, capacities[0])
    return found


def prefill_alone(asked: Questions) -> bool:
    """Whether --prefill-speed stands there with nothing that it is for."""
    return asked.prefill_tokens_per_second is not None and asked.decode_step_ms is None and not asked.pools


def _policies(blocks: Blocks, capacities: Sequence[int], names: Sequence[str]) -> tuple[PolicyPoint, ...]:
    known = {"lru": lru_hits, **POLICIES}
    for name in names:
        if name not in known:
            raise BadInput(f"no policy {name!r}; {nearest(name, known)}")
    if not capacities:
        raise BadInput("--policy needs --capacity N,N: other policies have no curve for every capacity")
    return tuple(_point(blocks, name, at, known[name](blocks, at)) for at in capacities for name in names)


def _point(blocks: Blocks, name: str, at: int, hits: int) -> PolicyPoint:
    return PolicyPoint(policy=name, capacity_blocks=at, hit_blocks=hits, hit_rate=part_of(hits, len(blocks.ids)))
