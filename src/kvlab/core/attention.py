"""What attention layers keep, as configs spell it: heads, head sizes, windows and the kind of each layer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kvlab.core.class_defaults import DRAFT_LAYERS, EVERY_NTH_FULL, HEAD_DIMS
from kvlab.core.config import LAYER_KEYS, Config
from kvlab.core.errors import MissingFact, UnknownModel
from kvlab.core.layout import Row

HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads")
HIDDEN = ("hidden_size", "n_embd", "d_model", "model_dim", "n_embed")
KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "num_attention_groups")
HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim", "head_size")
_KV_LIKE = ("kv", "key_value", "multi_query", "query_group", "attention_group")
_FULL = frozenset({"full_attention", "attention", "global_attention", "global", "full", "hybrid_full_attention"})
_WINDOW = frozenset({"sliding_attention", "sliding_window_attention", "local_attention", "sliding", "local"})


class Heads(msgspec.Struct, frozen=True):
    """KV heads of a layer and the values of one key and one value."""

    kv: int
    k_dim: int
    v_dim: int


def layer_count(config: Config) -> int:
    """Layers of the trunk; draft (MTP) layers are not among them."""
    return config.need(*LAYER_KEYS)


def draft_layers(config: Config) -> range:
    """Numbers of the draft (MTP) layers that the checkpoint has after its trunk; empty when it has none."""
    count = layer_count(config)
    stated = config.maybe("num_nextn_predict_layers", "mtp_num_hidden_layers", least=0)
    return range(count, count + (DRAFT_LAYERS.get(model_type(config) or "", 0) if stated is None else stated))


def kv_heads(config: Config) -> int:
    """KV heads before sharding. A config that does not state them has one per attention head (plain MHA)."""
    if config.has("multi_query_attention"):
        # ChatGLM states the groups even where they are switched off.
        grouped = config.flag("multi_query_attention")
        config.understood("multi_query_group_num")
        if not grouped:
            return config.need(*HEADS)
        return divisor(config, config.need("multi_query_group_num"), "multi_query_group_num")
    if config.has("multi_query", "new_decoder_architecture"):
        # Falcon and GPT-BigCode: one head unless the newer Falcon layout states its own count.
        shared = config.flag("multi_query")
        if not config.flag("new_decoder_architecture") and shared:
            config.understood(*KV_HEADS)
            return 1
    stated = config.maybe(*KV_HEADS)
    nested = config.sub("attn_config")
    if stated is None and nested is not None:
        stated = 1 if nested.text("attn_type") == "multiquery_attention" else nested.maybe("kv_n_heads")
    if stated is not None:
        return divisor(config, stated, *KV_HEADS, "attn_config.kv_n_heads")
    unread = [key for key, value in config.unread() if _is_count(value) and any(word in key for word in _KV_LIKE)]
    if unread:
        raise MissingFact(
            f"{config.where}: {config.path}num_key_value_heads is not set and {', '.join(unread)} may mean it;"
            " add num_key_value_heads to the config"
        )
    return config.need(*HEADS)


def divisor(config: Config, kv: int, *keys: str) -> int:
    """`kv` KV heads, stated under one of `keys`. Raises BadInput when they do not divide the attention heads."""
    total = next((value for key in HEADS if isinstance(value := config.peek(key), int) and value > 0), None)
    if total is not None and total % kv:
        key = next((key for key in keys if config.has(key)), keys[-1])
        raise config.bad(key, kv, f"a divisor of the {total:,} attention heads")
    return kv


def _is_count(value: object) -> bool:
    return isinstance(value, int | list) and not isinstance(value, bool) and bool(value)


def head_dim(config: Config) -> int:
    """Values of one key: stated, or hidden size / attention heads."""
    stated = config.maybe(*HEAD_DIM) or HEAD_DIMS.get(model_type(config) or "")
    if stated:
        return stated
    hidden, heads = config.need(*HIDDEN), config.need(*HEADS)
    if hidden % heads:
        raise MissingFact(
            f"{config.where}: {config.path}head_dim is not set and hidden size {hidden:,} is no multiple of"
            f" {heads:,} attention heads; add head_dim to the config"
        )
    return hidden // heads


def heads(config: Config) -> Heads:
    """Heads of the full-attention layers; values may be narrower than keys (`v_head_dim`)."""
    key = head_dim(config)
    kv = kv_heads(config)
    return Heads(kv, key, config.maybe("v_head_dim", least=0) or key)


def model_type(config: Config) -> str | None:
    """The config's model_type."""
    value = config.peek("model_type")
    return value if isinstance(value, str) else None


def window_size(config: Config) -> int | None:
    """Tokens of the sliding window; None when there is none or it is switched off."""
    asked = config.flag("use_sliding_window")
    kind = model_type(config) or ""
    if asked is False or (asked is None and kind.startswith(("qwen2", "qwen3"))):
        # Qwen configs state a window and switch it off; Transformers and vLLM then keep every token.
        config.understood("sliding_window", "sliding_window_size", "max_window_layers")
        return None
    return config.maybe("sliding_window", "sliding_window_size", least=0) or None


def layer_kinds(config: Config, count: int) -> list[str] | None:
    """The kind of each trunk layer where `layer_types` lists them; entries for draft layers are left out."""
    kinds = config.items("layer_types")
    if kinds is None:
        return None
    draft = config.maybe("num_nextn_predict_layers", "mtp_num_hidden_layers", least=0) or 0
    if len(kinds) not in (count, count + draft) or not all(isinstance(kind, str) for kind in kinds):
        raise config.bad("layer_types", f"a list of {len(kinds)}", f"a list of {count} names, one for each layer")
    return [str(kind) for kind in kinds[:count]]


def windowed(config: Config, count: int) -> list[bool]:
    """Which of `count` layers slide, for a config whose window is on. Raises UnknownModel for kinds not known."""
    kinds = layer_kinds(config, count)
    if kinds is not None:
        config.understood("sliding_window_pattern", "_sliding_window_pattern", "max_window_layers")
        return [slides(config, kind) for kind in kinds]
    listed = config.numbers("hybrid_layer_pattern")
    if listed is not None:
        # MiMo-V2: 1 slides, 0 keeps every token.
        if len(listed) != count:
            raise config.bad("hybrid_layer_pattern", f"a list of {len(listed)}", f"a list of {count}")
        return [bool(kind) for kind in listed]
    if isinstance(config.peek("sliding_window_pattern"), str):
        pattern = config.text("sliding_window_pattern") or "L"
        return [pattern[layer % len(pattern)].upper() == "L" for layer in range(count)]
    every = config.maybe("sliding_window_pattern", "_sliding_window_pattern") or EVERY_NTH_FULL.get(
        model_type(config) or ""
    )
    if every is not None:
        # The last layer of every `every` keeps all tokens, as in Gemma 3.
        return [(layer + 1) % every != 0 for layer in range(count)]
    first = config.maybe("max_window_layers", least=0) or 0
    return [layer >= first for layer in range(count)]


def slides(config: Config, kind: str) -> bool:
    """Whether a layer of this kind slides. Raises UnknownModel for a kind that is not attention."""
    if kind in _WINDOW:
        return True
    if kind in _FULL:
        return False
    raise UnknownModel(
        f"{config.where}: {config.path}layer_types names {kind!r}, which kvlab does not know for model_type"
        f" {model_type(config)!r}; its cache cannot be planned"
    )


def indexer_leaders(config: Config, count: int) -> tuple[int, ...]:
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


def drafts(config: Config, *trunk: Row) -> tuple[Row, ...]:
    """Draft (MTP) layers that keep what the layers of `trunk` keep."""
    layers = tuple(draft_layers(config))
    return tuple(msgspec.structs.replace(row, layers=layers) for row in trunk) if layers else ()


def full_row(layers: Iterable[int], kept: Heads) -> Row:
    """Layers that keep every token."""
    return Row(kind="full", layers=tuple(layers), heads=kept.kv, k_dim=kept.k_dim, v_dim=kept.v_dim)


def window_row(layers: Iterable[int], kept: Heads, window: int) -> Row:
    """Layers that keep the last `window` tokens."""
    return Row(kind="window", layers=tuple(layers), heads=kept.kv, k_dim=kept.k_dim, v_dim=kept.v_dim, window=window)


def attention_rows(config: Config, layers: Sequence[int]) -> list[Row]:
    """Full attention in the given layers, or a window in all of them where the config states one."""
    if not layers:
        return []
    window = window_size(config)
    return [window_row(layers, heads(config), window) if window else full_row(layers, heads(config))]
