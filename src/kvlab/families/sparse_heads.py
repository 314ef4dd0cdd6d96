"""Plain attention heads with an indexer key beside them in the sparse layers: MiniMax-M3."""

from __future__ import annotations

from kvlab.core.attention import full_row, heads, layer_count
from kvlab.core.config import Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row

_UNSTORED = (
    "sparse_block_size",
    "sparse_init_block",
    "sparse_local_block",
    "sparse_num_index_heads",
    "sparse_score_type",
    "sparse_topk_blocks",
)


def _claims(config: Config) -> bool:
    return config.has("sparse_attention_config")


def _layout(config: Config) -> Layout:
    count = layer_count(config)
    sparse = config.need_sub("sparse_attention_config")
    rows = [full_row(range(count), heads(config))]
    if sparse.flag("use_sparse_attention") is False:
        return Layout(tuple(rows))
    sparse.understood(*_UNSTORED)
    flags = _flags(sparse, "sparse_attention_freq", count)
    keys_only = _flags(sparse, "sparse_disable_index_value", count)
    if any(flag and not alone for flag, alone in zip(flags, keys_only, strict=True)):
        raise UnknownModel(
            f"{config.where}: sparse_disable_index_value is off in a sparse layer; an indexer with values is not known"
        )
    layers = tuple(layer for layer in range(count) if flags[layer])
    if layers:
        rows.append(Row(kind="indexer", layers=layers, heads=1, k_dim=sparse.need("sparse_index_dim")))
    return Layout(tuple(rows))


def _flags(sparse: Config, key: str, count: int) -> list[int]:
    flags = sparse.numbers(key)
    if flags is None or len(flags) != count:
        raise sparse.bad(key, flags, f"0 or 1 for each of {count} layers")
    return flags


sparse_heads = Family(name="sparse_heads", claims=_claims, layout=_layout)
