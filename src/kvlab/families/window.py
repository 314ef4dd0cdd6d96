"""Some or all layers keep only the last tokens: Mistral, Gemma 2, 3 and 4, gpt-oss, Olmo 3, MiMo-V2."""

from __future__ import annotations

from kvlab.core.attention import (
    Heads,
    divisor,
    draft_layers,
    full_row,
    heads,
    layer_count,
    slides,
    window_row,
    window_size,
    windowed,
)
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row

_OTHER_SHAPES = (
    "kv_lora_rank",
    "compress_ratios",
    "linear_num_value_heads",
    "linear_attn_config",
    "ssm_state_size",
    "mamba_d_state",
    "conv_L_cache",
    "attn_type_list",
)


def _claims(config: Config) -> bool:
    if config.has(*_OTHER_SHAPES) or config.peek("use_sliding_window") is False:
        return False
    size = config.peek("sliding_window") or config.peek("sliding_window_size")
    return bool(size) and not isinstance(size, list)


def _layout(config: Config) -> Layout:
    count = layer_count(config)
    window = window_size(config)
    if window is None:
        return Layout((full_row(range(count), heads(config)),))
    sliding = windowed(config, count)
    # Layers at the end that reuse an earlier layer's cache (Gemma 3n and 4) keep nothing of their own.
    shared = config.maybe("num_kv_shared_layers", least=0) or 0
    if shared >= count:
        raise config.bad("num_kv_shared_layers", shared, f"less than the {count} layers")
    own = range(count - shared)
    local = [layer for layer in own if sliding[layer]]
    full = [layer for layer in own if not sliding[layer]]
    # MiMo-V2 repeats its window under this name; nothing is chunked.
    if config.peek("attention_chunk_size") == window:
        config.understood("attention_chunk_size")
    rows = []
    if local:
        rows.append(window_row(local, _local_heads(config), window))
    if full:
        rows.append(full_row(full, _full_heads(config)))
    return Layout(tuple(rows), draft=_drafts(config, count, window))


def _drafts(config: Config, count: int, window: int) -> tuple[Row, ...]:
    """Draft layers, where the config tells which of them slide; MiMo-V2's do."""
    layers = draft_layers(config)
    if config.has("hybrid_layer_pattern"):
        sliding = [True] * len(layers)
    else:
        kinds = config.items("layer_types") or []
        sliding = [slides(config, str(kind)) for kind in kinds[count:]]
    if not layers or len(sliding) != len(layers):
        return ()
    local = [layer for layer, slide in zip(layers, sliding, strict=True) if slide]
    full = [layer for layer, slide in zip(layers, sliding, strict=True) if not slide]
    rows = (window_row(local, _local_heads(config), window), full_row(full, _full_heads(config)))
    return tuple(row for row in rows if row.layers)


def _local_heads(config: Config) -> Heads:
    """Heads of sliding layers, which MiMo-V2 states apart (`swa_*`)."""
    kept = heads(config)
    kv = config.maybe("swa_num_key_value_heads") or kept.kv
    total = config.maybe("swa_num_attention_heads")
    if total is not None and total % kv:
        raise config.bad("swa_num_key_value_heads", kv, f"a divisor of the {total:,} attention heads")
    key = config.maybe("swa_head_dim") or kept.k_dim
    config.understood("swa_rope_theta")
    return Heads(kv, key, config.maybe("swa_v_head_dim") or (kept.v_dim if key == kept.k_dim else key))


def _full_heads(config: Config) -> Heads:
    """Heads of full layers, which Gemma 4 states apart (`global_*`)."""
    kept = heads(config)
    wide = config.maybe("global_head_dim")
    kv = divisor(config, config.maybe("num_global_key_value_heads") or kept.kv, "num_global_key_value_heads")
    # Keys that double as values are still stored twice (vLLM 0.32: 2 heads of 512 + 512 for Gemma 4 26B).
    config.understood("attention_k_eq_v")
    return Heads(kv, wide, wide) if wide else Heads(kv, kept.k_dim, kept.v_dim)


window = Family(name="window", claims=_claims, layout=_layout)
