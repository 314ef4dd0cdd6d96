"""Latent attention with an indexer that picks the tokens to attend to: DeepSeek-V3.2, GLM-5.

https://arxiv.org/abs/2512.02556: beside the latent, an indexer layer keeps one key of `index_head_dim` values per
token. The "indexer" row states those values; an engine may store them in its own format (vLLM: 8-bit floats with
one 32-bit scale per 128 values).
"""

from __future__ import annotations

from kvlab.core.attention import drafts, indexer_leaders, layer_count, layer_kinds
from kvlab.core.config import Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row

_UNCACHED = (
    "num_key_value_heads",
    "num_attention_heads",
    "head_dim",
    "v_head_dim",
    "index_n_heads",
    "index_topk",
    "index_share_for_mtp_iteration",
    "indexer_rope_interleave",
)


def _claims(config: Config) -> bool:
    return (
        config.has("kv_lora_rank")
        and config.has("index_topk", "index_head_dim")
        and not config.has("linear_attn_config")
    )


def _layout(config: Config) -> Layout:
    count = layer_count(config)
    config.understood(*_UNCACHED)
    for kind in set(layer_kinds(config, count) or ()) - {"deepseek_sparse_attention", "full_attention"}:
        raise UnknownModel(f"{config.where}: layer_types names {kind!r} beside sparse latent attention")
    width = config.need("kv_lora_rank") + config.need("qk_rope_head_dim", least=0)
    indexer = Row(kind="indexer", layers=indexer_leaders(config, count), heads=1, k_dim=config.need("index_head_dim"))
    latent = Row(kind="latent", layers=tuple(range(count)), heads=1, k_dim=width)
    # A draft layer has an indexer of its own even where the trunk shares them.
    return Layout((latent, indexer), draft=drafts(config, latent, indexer))


sparse_latent = Family(name="sparse_latent", claims=_claims, layout=_layout)
