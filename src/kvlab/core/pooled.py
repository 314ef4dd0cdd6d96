"""Rows of models that compress keys over many tokens: DeepSeek V4.

Sizes of what waits to be compressed, in float32: vLLM 0.32, models/deepseek_v4/compressor.py, and the constructor of
`llama_kv_cache_dsv4` in llama.cpp b11434 (ratio 4 compresses twice its window, halves overlapping).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from kvlab.core.layout import Row, State

RATIOS = (4, 128)
"""Tokens of one compressed entry that are known."""
_OVERLAPPING = 4


def windowed_row(layers: Iterable[int], width: int, window: int) -> Row:
    """Latents of the last `window` tokens."""
    return Row(kind="latent", layers=tuple(layers), heads=1, k_dim=width, window=window)


def pooled_rows(ratios: Sequence[int], width: int, index: int) -> list[Row]:
    """Compressed latents of `width` values by the ratio of each layer, and the `index` values of an indexer beside."""
    rows = []
    for ratio in RATIOS:
        layers = tuple(layer for layer, own in enumerate(ratios) if own == ratio)
        if layers:
            rows.append(_pooled("latent", layers, width, ratio))
        if layers and ratio == _OVERLAPPING:
            rows.append(_pooled("indexer", layers, index, ratio))
    return rows


def _pooled(kind: Literal["latent", "indexer"], layers: tuple[int, ...], width: int, ratio: int) -> Row:
    overlap = 2 if ratio == _OVERLAPPING else 1
    taps = overlap * ratio
    # A token waits as a key and a score of `width` values for each of the overlapping windows.
    tail = State("window", taps * 2 * overlap * width, "float32", taps)
    return Row(kind=kind, layers=layers, heads=1, k_dim=width, pool=ratio, tail=tail)
