"""Latent attention (MLA): one compressed key per token and layer, which also serves as the value.

https://arxiv.org/abs/2405.04434 (DeepSeek-V2), section 2.1: the cache holds kv_lora_rank + qk_rope_head_dim values.
"""

from __future__ import annotations

from kvlab.core.attention import drafts, layer_count, model_type
from kvlab.core.class_defaults import ATTENTIONS_IN_LAYER, EXPANDED_LATENT
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row

# Per-head sizes after decompression: computed, never cached.
_UNCACHED = (
    "num_key_value_heads",
    "num_attention_heads",
    "head_dim",
    "v_head_dim",
    "qk_head_dim",
    "q_lora_rank",
    "qk_nope_head_dim",
    "mla_scale_q_lora",
    "mla_scale_kv_lora",
)


def _claims(config: Config) -> bool:
    other = config.has("index_topk", "linear_attn_config", "index_head_dim", "layer_group_size")
    return config.has("kv_lora_rank") and not other and config.peek("model_type") not in EXPANDED_LATENT


def _layout(config: Config) -> Layout:
    config.understood(*_UNCACHED)
    width = config.need("kv_lora_rank") + config.need("qk_rope_head_dim", least=0)
    modules = ATTENTIONS_IN_LAYER.get(model_type(config) or "", 1)
    trunk = Row(kind="latent", layers=tuple(range(modules * layer_count(config))), heads=1, k_dim=width)
    return Layout((trunk,), draft=drafts(config, trunk) if modules == 1 else ())


latent = Family(name="latent", claims=_claims, layout=_layout)
