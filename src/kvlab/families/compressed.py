"""Latents of a window in every layer, and latents compressed over many tokens in most: DeepSeek V4.

`compress_ratios` gives each layer the tokens of one compressed entry; 0 or 1 leaves it the window alone. Layers of
ratio 4 have an indexer, whose keys are compressed as well. Sizes of what waits to be compressed, in float32: vLLM 0.32,
models/deepseek_v4/compressor.py (ratio 4 compresses twice its window, halves overlapping).
"""

from __future__ import annotations

from typing import Literal

from kvlab.core.attention import draft_layers, layer_count
from kvlab.core.config import Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, State

_UNCACHED = (
    *("num_key_value_heads", "num_attention_heads", "q_lora_rank", "o_lora_rank", "o_groups", "qk_rope_head_dim"),
    *("index_n_heads", "index_topk", "compress_rope_theta"),
)
_OVERLAPPING = 4
_KNOWN = (4, 128)


def _claims(config: Config) -> bool:
    return config.has("compress_ratios") and config.has("index_head_dim") and config.has("sliding_window")


def _layout(config: Config) -> Layout:
    count, drafts = layer_count(config), tuple(draft_layers(config))
    config.understood(*_UNCACHED)
    ratios = config.numbers("compress_ratios") or []
    if len(ratios) not in (count, count + len(drafts)) or any(ratios[count:]):
        raise config.bad("compress_ratios", f"a list of {len(ratios)}", f"one entry for each of {count} layers")
    if odd := sorted(set(ratios[:count]) - {0, 1, *_KNOWN}):
        raise UnknownModel(f"{config.where}: {config.path}compress_ratios has {odd}; kvlab knows 4 and 128 tokens")
    width, index, window = config.need("head_dim"), config.need("index_head_dim"), config.need("sliding_window")
    rows = [_windowed(range(count), width, window)]
    for ratio in _KNOWN:
        layers = tuple(layer for layer in range(count) if ratios[layer] == ratio)
        if layers:
            rows.append(_pooled("latent", layers, width, ratio))
        if layers and ratio == _OVERLAPPING:
            rows.append(_pooled("indexer", layers, index, ratio))
    return Layout(tuple(rows), draft=(_windowed(drafts, width, window),) if drafts else ())


def _windowed(layers: range | tuple[int, ...], width: int, window: int) -> Row:
    return Row(kind="latent", layers=tuple(layers), heads=1, k_dim=width, window=window)


def _pooled(kind: Literal["latent", "indexer"], layers: tuple[int, ...], width: int, ratio: int) -> Row:
    overlap = 2 if ratio == _OVERLAPPING else 1
    taps = overlap * ratio
    # A token waits as a key and a score of `width` values for each of the overlapping windows.
    tail = State("window", taps * 2 * overlap * width, "float32", taps)
    return Row(kind=kind, layers=layers, heads=1, k_dim=width, pool=ratio, tail=tail)


compressed = Family(name="compressed", claims=_claims, layout=_layout)
