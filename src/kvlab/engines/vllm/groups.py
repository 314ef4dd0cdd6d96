"""Cache groups: layers that share one block table, all of them with the same bytes per block.

Follows vllm/v1/core/kv_cache_utils.py of 0.32.0 (0.33.0 moved it to kv_cache_planning.py).
"""

from __future__ import annotations

import msgspec

from kvlab.core.units import ceil_div
from kvlab.engines.vllm.specs import Room, Spec
from kvlab.engines.vllm.versions import Release


class Group(msgspec.Struct, frozen=True):
    """Specs that advance together; one block of the group holds a page of each of its layers."""

    specs: tuple[Spec, ...]

    def blocks(self, room: Room) -> int:
        """Blocks of one request."""
        return max(spec.blocks(room) for spec in self.specs)

    def bytes_on(self, stage: range) -> int:
        """Bytes of one block for the layers of a pipeline stage."""
        return sum(spec.page * sum(layer in stage for layer in spec.layers) for spec in self.specs)

    @property
    def block_size(self) -> int:
        """Tokens of one block."""
        return min(spec.block_size for spec in self.specs)


def group(specs: list[Spec], release: Release) -> tuple[Group, ...]:
    """All layers in groups, in vLLM's order of decisions: one group if uniform, else buckets of one page size."""
    if len({(spec.keeps, spec.window, spec.block_size) for spec in specs}) == 1:
        return (Group(tuple(specs)),)
    unified = _unify(specs)
    if unified is None:
        return (Group(tuple(msgspec.structs.replace(spec, keeps="all", window=None) for spec in specs)),)
    buckets = _buckets(unified)
    size = _group_size([len(spec.layers) for spec in buckets], release)
    return tuple(Group((part,)) for bucket in buckets for part in _split(bucket, size))


def _unify(specs: list[Spec]) -> list[Spec] | None:
    """Every page as large as the largest: smaller ones take more tokens, or padding. None when that cannot be."""
    largest = max(spec.page for spec in specs)
    unified = []
    for spec in specs:
        ratio, rest = divmod(largest, spec.page)
        if rest and spec.stored != "heads":
            return None
        block_size = spec.block_size if rest else spec.block_size * ratio
        unified.append(msgspec.structs.replace(spec, block_size=block_size, page=largest))
    return unified


def _buckets(specs: list[Spec]) -> list[Spec]:
    """Specs that are alike, with their layers together in model order."""
    found: dict[tuple[object, ...], Spec] = {}
    for spec in specs:
        same = found.get(spec.like())
        layers = tuple(sorted((*(same.layers if same else ()), *spec.layers)))
        found[spec.like()] = msgspec.structs.replace(spec, layers=layers)
    return list(found.values())


def _group_size(counts: list[int], release: Release) -> int:
    """Layers per group: the largest bucket if it is not much larger than the smallest, else the smallest."""
    smallest, largest = min(counts), max(counts)
    slack = 1.5 if release >= (0, 14, 0) else 1.25 if release >= (0, 12, 0) else 1.0
    return largest if largest < slack * smallest else smallest


def _split(bucket: Spec, size: int) -> list[Spec]:
    count = ceil_div(len(bucket.layers), size)
    return [msgspec.structs.replace(bucket, layers=bucket.layers[start::count]) for start in range(count)]


def stages(layers: int, pp: int) -> tuple[range, ...]:
    """Layers of each pipeline stage: even, the remainder to the stages before the last."""
    sizes = [layers // pp] * pp
    for index in range(2, layers % pp + 2):
        sizes[-index] += 1
    starts = [sum(sizes[:stage]) for stage in range(pp)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))
