"""Latent attention with an indexer that picks the tokens to attend to: DeepSeek-V3.2, GLM-5.

https://arxiv.org/abs/2512.02556: beside the latent, an indexer layer keeps one key of `index_head_dim` values per
token. The "indexer" row states those values; an engine may store them in its own format (vLLM: 8-bit floats with
one 32-bit scale per 128 values).
"""

from __future__ import annotations

from kvlab.core.attention import drafts, layer_count, layer_kinds
from kvlab.core.config import Config
from kvlab.core.errors import MissingFact, UnknownModel
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
    indexer = Row(kind="indexer", layers=_leaders(config, count), heads=1, k_dim=config.need("index_head_dim"))
    latent = Row(kind="latent", layers=tuple(range(count)), heads=1, k_dim=width)
    # A draft layer has an indexer of its own even where the trunk shares them.
    return Layout((latent, indexer), draft=drafts(config, latent, indexer))


def _leaders(config: Config, count: int) -> tuple[int, ...]:
    """Layers with an indexer of their own; the others ("shared") reuse the choice of the one before."""
    kinds = config.items("indexer_types")
    if kinds is None:
        if config.has("index_topk_freq", "index_topk_pattern"):
            raise MissingFact(
                f"{config.where}: indexer_types is not set and index_topk_freq shares indexers between layers;"
                " add indexer_types to the config"
            )
        return tuple(range(count))
    config.understood("index_topk_freq", "index_topk_pattern", "index_skip_topk_offset")
    if len(kinds) < count or set(map(str, kinds)) - {"full", "shared"}:
        raise config.bad("indexer_types", f"a list of {len(kinds)}", f'"full" or "shared" for each of {count} layers')
    return tuple(layer for layer, kind in enumerate(kinds[:count]) if kind == "full")


sparse_latent = Family(name="sparse_latent", claims=_claims, layout=_layout)
