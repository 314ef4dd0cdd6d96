"""Latent attention that engines expand before caching: MiniCPM3.

vLLM 0.32 caches every head of MiniCPM3, keys and values both as wide as a key (qk_nope + qk_rope).
"""

from __future__ import annotations

from kvlab.core.attention import HEADS, Heads, full_row, layer_count
from kvlab.core.class_defaults import EXPANDED_LATENT
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout


def _claims(config: Config) -> bool:
    return config.has("kv_lora_rank") and config.peek("model_type") in EXPANDED_LATENT


def _layout(config: Config) -> Layout:
    config.understood("kv_lora_rank", "num_key_value_heads", "v_head_dim", "head_dim")
    width = config.need("qk_nope_head_dim") + config.need("qk_rope_head_dim")
    return Layout((full_row(range(layer_count(config)), Heads(config.need(*HEADS), width, width)),))


expanded_latent = Family(name="expanded_latent", claims=_claims, layout=_layout)
