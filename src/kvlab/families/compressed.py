"""Latents of a window in every layer, and latents compressed over many tokens in most: DeepSeek V4.

`compress_ratios` gives each layer the tokens of one compressed entry; 0 or 1 leaves it the window alone. Layers of
ratio 4 have an indexer, whose keys are compressed as well.
"""

from __future__ import annotations

from kvlab.core.attention import draft_layers, layer_count
from kvlab.core.config import Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout
from kvlab.core.pooled import RATIOS, pooled_rows, windowed_row

_UNCACHED = (
    *("num_key_value_heads", "num_attention_heads", "q_lora_rank", "o_lora_rank", "o_groups", "qk_rope_head_dim"),
    *("index_n_heads", "index_topk", "compress_rope_theta"),
)


def _claims(config: Config) -> bool:
    return config.has("compress_ratios") and config.has("index_head_dim") and config.has("sliding_window")


def _layout(config: Config) -> Layout:
    count, drafts = layer_count(config), tuple(draft_layers(config))
    config.understood(*_UNCACHED)
    ratios = config.numbers("compress_ratios") or []
    if len(ratios) not in (count, count + len(drafts)) or any(ratios[count:]):
        raise config.bad("compress_ratios", f"a list of {len(ratios)}", f"one entry for each of {count} layers")
    if odd := sorted(set(ratios[:count]) - {0, 1, *RATIOS}):
        raise UnknownModel(f"{config.where}: {config.path}compress_ratios has {odd}; kvlab knows 4 and 128 tokens")
    width, index, window = config.need("head_dim"), config.need("index_head_dim"), config.need("sliding_window")
    rows = (windowed_row(range(count), width, window), *pooled_rows(ratios[:count], width, index))
    return Layout(rows, draft=(windowed_row(drafts, width, window),) if drafts else ())


compressed = Family(name="compressed", claims=_claims, layout=_layout)
