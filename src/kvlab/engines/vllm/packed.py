"""Caches whose entries stand for several tokens: pages of many sizes, packed side by side into one block.

DeepSeek V4 and GLM-5.3-Flash. Follows vllm/v1/core/kv_cache_utils.py, models/deepseek_v4 and models/glm5next of 0.32.0:
such layouts are block-outermost, so a block holds a page of each layer of a group, and may stay partly empty.
"""

from __future__ import annotations

from math import gcd, lcm

import msgspec

from kvlab.core.layout import Row, State
from kvlab.core.units import ceil_div
from kvlab.engines.vllm.dtypes import entry_bytes
from kvlab.engines.vllm.groups import Group
from kvlab.engines.vllm.specs import Spec, Stored

_WINDOW_BLOCK = 64  # tokens of a block of windowed latents
_PACKED_PAGE, _PLAIN_PAGE = 576, 512  # pages are rounded up to these, in fp8_ds_mla and in other formats
_FEW_TAPS = 8  # a compressor that keeps no more tokens than this has blocks of 4 tokens, others of 8
_INDEX_STATES = 64  # entries of an indexer page that its kernel reads at a time
_SPARSE_ROWS = 32  # rows of a page of FLASHINFER_MLA_SPARSE, the kernel of compute capability 10.x


class Kernels(msgspec.Struct, frozen=True):
    """What the choice of kernels brings: the cache format, the compute capability, the tokens drafted at a time."""

    dtype: str
    capability: tuple[int, int] | None
    drafted: int


def row_specs(row: Row, block: int, kernels: Kernels) -> list[Spec]:
    """The spec of a row of latents or indexer keys, and that of the tokens waiting to be compressed."""
    windows = row.tail is None or row.tail.name == "window"
    block = _WINDOW_BLOCK if row.window else block
    entry = entry_bytes(row, kernels.dtype, 1, True)
    page = block // row.pool * entry
    if (row.pool > 1 and windows) or row.window:
        packed = kernels.dtype == "fp8_ds_mla" or (row.kind == "latent" and row.pool > 1)
        page = _round_up(page, _PACKED_PAGE if packed else _PLAIN_PAGE)
    stored: Stored = "latent" if row.kind == "latent" else "indexer"
    main = Spec(
        keeps="window" if row.window else "all",
        stored=stored,
        layers=row.layers,
        token_bytes=entry,
        block_size=block,
        page=page,
        window=row.window,
        stride=_stride(row, block, entry, kernels),
    )
    if row.tail is None:
        return [main]
    return [main, _window_tail(row, row.tail, kernels) if windows else _ring(row, row.tail, kernels)]


def _stride(row: Row, block: int, entry: int, kernels: Kernels) -> int:
    """Bytes of which the distance of two blocks is a multiple, because kernels read the cache as rows or pages."""
    if row.kind == "indexer" and row.pool > 1:
        tokens = gcd(_INDEX_STATES * row.pool, block)
        return 1 if tokens == block else tokens // row.pool * entry
    if row.pool > 1 or row.window:
        return 1
    return entry * (_SPARSE_ROWS if kernels.capability and kernels.capability[0] == 10 else 1)


def _window_tail(row: Row, tail: State, kernels: Kernels) -> Spec:
    """Inputs of a compressor, in float32, for the last `taps` tokens."""
    taps = tail.taps or 1
    block = 4 if taps <= _FEW_TAPS else 8
    token = tail_bytes(tail) // taps
    align = _PACKED_PAGE if kernels.dtype == "fp8_ds_mla" else _PLAIN_PAGE
    return Spec(
        keeps="window",
        stored="latent",
        layers=row.layers,
        token_bytes=token,
        block_size=block,
        page=_round_up(block * token, align),
        window=taps,
    )


def _ring(row: Row, tail: State, kernels: Kernels) -> Spec:
    """Keys and gates, in bfloat16, of the tokens of the running entry; drafted tokens need more room in the ring."""
    pools = ceil_div(row.pool + kernels.drafted, row.pool)
    ring = row.pool * (1 << (pools - 1).bit_length())
    token = tail_bytes(tail) // row.pool
    return Spec(
        keeps="ring",
        stored="indexer",
        layers=row.layers,
        token_bytes=token,
        block_size=ring,
        page=ring * token,
        fixed=1,
    )


def tail_bytes(tail: State) -> int:
    """Bytes of what waits to be compressed, of one sequence in one layer."""
    return tail.values * (4 if tail.dtype == "float32" else 2)


def packed_groups(specs: list[Spec]) -> tuple[Group, ...]:
    """Buckets of one kind, split so that all groups hold about the same number of layers of each page size."""
    buckets = _buckets(specs)
    repeats = _repeats(buckets)
    counts = [ceil_div(_most(bucket), repeats) if repeats and _balanced(bucket) else 1 for bucket in buckets]
    anchor = max(
        _widest(bucket, _layers(bucket) if _is_state(bucket) else count)
        for bucket, count in zip(buckets, counts, strict=True)
    )
    found: list[Group] = []
    for bucket, count in zip(buckets, counts, strict=True):
        if _is_state(bucket):
            # States do not widen the block that attention needs.
            count = max(count, ceil_div(_layers(bucket), max(anchor // bucket[0].page, 1)))
        found += [Group(tuple(bucket))] if count == 1 else [_part(bucket, start, count) for start in range(count)]
    return tuple(found)


def stride_on(specs: list[Spec], stage: range) -> int:
    """Bytes of which a block is a multiple on a pipeline stage."""
    return lcm(*(spec.stride for spec in specs if any(layer in stage for layer in spec.layers)))


def _buckets(specs: list[Spec]) -> list[list[Spec]]:
    found: dict[tuple[object, ...], list[Spec]] = {}
    for spec in specs:
        found.setdefault((spec.keeps, spec.window, spec.block_size), []).append(spec)
    return list(found.values())


def _pages(bucket: list[Spec]) -> dict[int, list[tuple[int, Spec]]]:
    """Layers of each page size, in model order."""
    found: dict[int, list[tuple[int, Spec]]] = {}
    for spec in bucket:
        found.setdefault(spec.page, []).extend((layer, spec) for layer in spec.layers)
    return {page: sorted(layers, key=lambda pair: pair[0]) for page, layers in found.items()}


def _most(bucket: list[Spec]) -> int:
    return max(len(layers) for layers in _pages(bucket).values())


def _layers(bucket: list[Spec]) -> int:
    return sum(len(spec.layers) for spec in bucket)


def _balanced(bucket: list[Spec]) -> bool:
    return len({len(layers) for layers in _pages(bucket).values()}) == 1


def _is_state(bucket: list[Spec]) -> bool:
    return bucket[0].keeps in ("state", "ring")


def _widest(bucket: list[Spec], count: int) -> int:
    return sum(ceil_div(len(layers), count) * page for page, layers in _pages(bucket).items())


def _repeats(buckets: list[list[Spec]]) -> int | None:
    """Layers of each page size in a group; None when no balanced bucket mixes page sizes."""
    balanced = [bucket for bucket in buckets if _balanced(bucket)]
    least = max((_most(bucket) for bucket in balanced if len(_pages(bucket)) > 1), default=0)
    if not least:
        return None
    counts = [_most(bucket) for bucket in balanced]
    # The size that leaves the fewest places empty; of equals the largest.
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))


def _part(bucket: list[Spec], start: int, count: int) -> Group:
    chosen = [pair for repeat in list(zip(*_pages(bucket).values(), strict=True))[start::count] for pair in repeat]
    parts = (
        msgspec.structs.replace(spec, layers=tuple(layer for layer, of in chosen if of is spec)) for spec in bucket
    )
    return Group(tuple(part for part in parts if part.layers))


def _round_up(amount: int, step: int) -> int:
    return step * ceil_div(amount, step)
