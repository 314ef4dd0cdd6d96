"""GGUF metadata, read as llama.cpp reads it: what its loader fixes per architecture is not in the file.

Sources: the `load_arch_hparams` functions in src/models of llama.cpp (b11434); recurrent sizes from llama-hparams.cpp
(`n_embd_r`, `n_embd_s`); which layers a cache holds from `create_memory` in llama-model.cpp.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kvlab.core import gguf_arches as arches
from kvlab.core.config import Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, RowKind, State
from kvlab.core.pooled import RATIOS, pooled_rows, windowed_row

_INDEXER = tuple(
    f"attention.indexer.{key}" for key in ("head_count", "top_k", "block_size", "local_blocks", "kpool_select_tail")
)
_TRUNK_ONLY = frozenset({"glm5-next"})
"""Hybrids whose attention cache leaves the draft layers out."""
_DRAFTS_TOO = frozenset({"hy_v4", "minimax-m3"})
"""Other architectures whose attention cache holds the draft layers as well."""
_GLM_SHARES_FROM = 1048576
"""GLM-DSA models of this context share indexers among four layers where their file does not list them."""


class _Kept(msgspec.Struct, frozen=True):
    """What one layer keeps of attention."""

    kind: RowKind
    heads: int
    k_dim: int
    v_dim: int
    window: int | None = None


class _Blocks(msgspec.Struct, frozen=True):
    """Layers by what they keep: those of the attention cache, those with a state."""

    trunk: int
    """Layers without the draft layers."""
    held: int
    """Layers among which the attention cache chooses."""
    recurrent: frozenset[int]
    attention: tuple[int, ...]


def _claims(config: Config) -> bool:
    return config.has("general.architecture")


def _layout(config: Config) -> Layout:
    arch = config.text("general.architecture") or ""
    _refuse(config, arch)
    if arch in arches.POOLED:
        return _compressed(config)
    blocks = _blocks(config, arch)
    groups: dict[_Kept, list[int]] = {}
    for layer, kept in (*_attention(config, arch, blocks), *_indexer(config, arch, blocks)):
        groups.setdefault(kept, []).append(layer)
    rows = [Row(layers=tuple(layers), **msgspec.structs.asdict(kept)) for kept, layers in groups.items()]
    if blocks.recurrent:
        rows.append(Row(kind="state", layers=tuple(sorted(blocks.recurrent)), state=_state(config, arch)))
    if not rows:
        raise config.bad("attention.head_count_kv", "0 in every layer", "at least 1 in a layer that attends")
    return Layout(tuple(rows))


def _compressed(config: Config) -> Layout:
    """A window of latents in every layer, those of drafts too, and compressed ones by the ratio of each layer."""
    count = config.need("block_count")
    ratios = config.numbers(key := "attention.compress_ratios") or []
    if len(ratios) < count or set(ratios) - {0, 1, *RATIOS}:
        raise config.bad(key, ratios, f"a list of 0, 4 or 128 for each of {count} layers")
    config.understood("attention.head_count", "attention.head_count_kv", "attention.value_length", *_INDEXER)
    width, index = config.need("attention.key_length"), config.need("attention.indexer.key_length")
    window = windowed_row(range(count), width, config.need("attention.sliding_window"))
    return Layout((window, *pooled_rows(ratios[:count], width, index)))


def _refuse(config: Config, arch: str) -> None:
    """Raises UnknownModel for what llama.cpp does not load, or loads and keeps no cache that is planned here."""
    if arch in arches.NO_CACHE or config.flag("attention.causal") is False:
        raise UnknownModel(f"{config.where}: architecture {arch!r} is an encoder and keeps no KV cache")
    if arch in arches.NOT_PLANNED:
        raise UnknownModel(f"{config.where}: architecture {arch!r} {arches.NOT_PLANNED[arch]}")
    if arch not in arches.KNOWN:
        raise UnknownModel(
            f"{config.where}: llama.cpp {arches.BUILD} has no architecture {arch!r}, and kvlab does not know in which"
            " layers it keeps what"
        )
    if config.has("ple.layers"):
        raise UnknownModel(f"{config.where}: architecture {arch!r}: keys not understood: ple.layers")


def _blocks(config: Config, arch: str) -> _Blocks:
    # Layers that are run several times keep a cache for each time.
    count = config.number(config.need("block_count") * (config.maybe("num_loops") or 1), "block_count x num_loops")
    # Draft layers are counted in block_count.
    trunk = count - (config.maybe("nextn_predict_layers", least=0) or 0)
    if trunk < 1:
        raise config.bad("nextn_predict_layers", config.peek("nextn_predict_layers"), "less than block_count")
    held = count if arch in (arches.NO_HEADS | _DRAFTS_TOO) - _TRUNK_ONLY else trunk
    recurrent = _recurrent(config, arch, trunk)
    if arch in arches.RECURRENT:
        return _Blocks(trunk, held, recurrent, ())
    attention = [layer for layer in range(held) if layer not in recurrent or arch in arches.BOTH]
    if arch.startswith("nemotron_h"):
        width = _per_layer(config, "feed_forward_length", held)
        attention = [layer for layer in attention if not width[layer]]
    return _Blocks(trunk, held, recurrent, tuple(attention))


def _recurrent(config: Config, arch: str, count: int) -> frozenset[int]:
    """Layers that keep a state."""
    if arch in arches.RECURRENT | arches.BOTH:
        config.understood("attention.head_count", "attention.head_count_kv")
        return frozenset(range(count))
    if arch in arches.INTERVAL:
        if config.has("attention.recurrent_layers"):
            listed = config.items("attention.recurrent_layers") or []
            return frozenset(layer for layer, flag in enumerate(listed[:count]) if flag)
        every = config.maybe("full_attention_interval") or arches.INTERVAL[arch]
        return frozenset(layer for layer in range(count) if (layer + 1) % every)
    if arch in arches.NO_HEADS:
        kv_heads = _kv_heads(config, count)
        # In Nemotron-H a layer without KV heads is a feed-forward layer where it has a feed-forward width.
        width = _per_layer(config, "feed_forward_length", count) if arch.startswith("nemotron_h") else [0] * count
        return frozenset(layer for layer in range(count) if not kv_heads[layer] and not width[layer])
    return frozenset()


def _attention(config: Config, arch: str, blocks: _Blocks) -> Iterable[tuple[int, _Kept]]:
    """The layers of the attention cache and what each keeps; without KV heads, or with a shared cache, none."""
    if not blocks.attention:
        return
    config.understood("attention.kv_lora_rank", "attention.key_length_mla", "attention.value_length_mla")
    latent = _latent(config, arch)
    heads, kv_heads = _per_layer(config, "attention.head_count", blocks.held), _kv_heads(config, blocks.held)
    window, slides, kind = _windows(config, arch, blocks)
    owners = _owners(config, arch, blocks)
    for layer in blocks.attention:
        if not kv_heads[layer] or not heads[layer] or layer >= owners:
            continue
        if heads[layer] % kv_heads[layer]:
            of = f"a divisor of the {heads[layer]:,} attention heads of layer {layer}"
            raise config.bad("attention.head_count_kv", kv_heads[layer], of)
        k_dim, v_dim = _dims(config, heads[0] or heads[layer], sliding=slides[layer])
        shape = "latent" if latent else kind if slides[layer] else "full"
        yield layer, _Kept(shape, kv_heads[layer], k_dim, 0 if latent else v_dim, window if slides[layer] else None)
    if arch == "graniteswitch":
        # One more layer, of one head, routes between adapters.
        k_dim, v_dim = _dims(config, heads[0], sliding=False)
        yield blocks.trunk, _Kept("full", 1, k_dim, v_dim)


def _latent(config: Config, arch: str) -> bool:
    """Whether values are part of the one compressed key, whose width the file states as key_length."""
    return arch in arches.LATENT and config.has("attention.key_length_mla") and config.has("attention.value_length_mla")


def _owners(config: Config, arch: str, blocks: _Blocks) -> int:
    """The first so many layers own a cache."""
    if arch not in arches.SHARED:
        return blocks.held
    shared = config.maybe("attention.shared_kv_layers", least=0) or 0
    return arches.GEMMA3N_OWNERS if arch == "gemma3n" else config.need("block_count") - shared


def _dims(config: Config, heads: int, *, sliding: bool) -> tuple[int, int]:
    """Values of a key and of a value; embedding length / heads where the file does not state them."""
    if not heads:
        raise config.bad("attention.head_count", 0, "at least 1 in a layer that attends")
    key, value = config.maybe("attention.key_length"), config.maybe("attention.value_length")
    even = config.need("embedding_length") // heads
    key, value = key or even, value or even
    narrow_key, narrow_value = config.maybe("attention.key_length_swa"), config.maybe("attention.value_length_swa")
    if sliding:
        return narrow_key or key, narrow_value or value
    return key, value


def _windows(config: Config, arch: str, blocks: _Blocks) -> tuple[int | None, list[bool], RowKind]:
    """The window, which layers slide, and what sliding means."""
    rule = arches.WINDOWS.get(arch)
    if rule is None or rule.layers not in (None, blocks.trunk):
        config.understood("attention.sliding_window", "attention.sliding_window_pattern")
        return None, [False] * blocks.held, "full"
    window = config.maybe("attention.sliding_window", least=0)
    if window is None:
        window = config.need("attention.sliding_window") if rule.needed else rule.default
    if not window:
        config.understood("attention.sliding_window_pattern")
        return None, [False] * blocks.held, "full"
    drafts = [False] * (blocks.held - blocks.trunk)
    return rule.fixed or window, _slides(config, rule, blocks.trunk) + drafts, rule.kind


def _slides(config: Config, rule: arches.Windows, count: int) -> list[bool]:
    """Which layers of the trunk slide."""
    key = "attention.sliding_window_pattern"
    if rule.period is None or isinstance(config.peek(key), list):
        listed = config.items(key)
        if listed is None or len(listed) < count:
            raise config.bad(key, config.peek(key), f"a list of one entry for each of {count} layers")
        return [bool(slides) for slides in listed[:count]]
    period = config.maybe(key) or rule.period
    if not period:
        return [True] * count
    full = 0 if rule.full_first else period - 1
    return [layer % period != full for layer in range(count)]


def _indexer(config: Config, arch: str, blocks: _Blocks) -> Iterable[tuple[int, _Kept]]:
    """Layers with an indexer of their own: one key per token, and a value where attention keeps values."""
    if arch not in arches.INDEXER or (arch == "hy_v4" and not config.maybe("attention.indexer.top_k", least=0)):
        return
    config.understood(*_INDEXER)
    width, value = config.need("attention.indexer.key_length"), 0
    if arch == "glm5-next":
        width *= 3 if config.maybe("attention.indexer.kpool", least=0) else 1  # key, gate and pooled key
    elif arch == "qwen4exp":
        width *= 2 if any(config.numbers("attention.compress_ratios") or []) else 1  # key and pooled key
    elif not _latent(config, arch):
        value = _dims(config, _per_layer(config, "attention.head_count", blocks.held)[0], sliding=False)[1]
    for layer in _indexed(config, arch, blocks):
        yield layer, _Kept("indexer", 1, width, value)


def _indexed(config: Config, arch: str, blocks: _Blocks) -> list[int]:
    if arch == "minimax-m3":
        first = config.maybe("leading_dense_block_count", least=0) or 0
        return list(range(first, blocks.held))
    layers = [layer for layer in blocks.attention if layer < blocks.trunk]
    if arch in ("deepseek32", "qwen4exp"):
        return layers
    own = config.items("attention.indexer.types")
    if own is not None:
        if len(own) < blocks.trunk:
            raise config.bad("attention.indexer.types", own, f"a list of one entry for each of {blocks.trunk} layers")
        return [layer for layer in layers if own[layer]]
    if arch in ("hy_v4", "dots3note"):
        raise config.bad("attention.indexer.types", None, f"a list of one entry for each of {blocks.trunk} layers")
    if arch == "glm-dsa" and config.need("context_length") >= _GLM_SHARES_FROM:
        return [layer for layer in layers if layer < 2 or (layer - 2) % 4 == 0]
    return layers


def _state(config: Config, arch: str) -> tuple[State, ...]:
    """Values of the convolution window and of the recurrent state of one layer."""
    if config.has("wkv.head_size"):
        hidden = config.need("embedding_length")
        shifts = config.maybe("token_shift_count") or 2
        return State("conv", shifts * hidden), State("ssm", hidden * config.need("wkv.head_size"))
    if config.has("shortconv.l_cache"):
        return (State("conv", config.need("embedding_length") * (config.need("shortconv.l_cache") - 1)),)
    heads = config.numbers_or_one("attention.head_count")[0]
    if arch == "minimax-01":
        size = _dims(config, heads, sliding=False)[0]
        return (State("ssm", size * size * heads),)
    kernel = config.need("ssm.conv_kernel")
    if config.has("kda.head_dim"):
        config.understood("kda.gate_lower_bound", "kda.safe_gate")
        size = config.need("kda.head_dim")
        return State("conv", 3 * (kernel - 1) * heads * size), State("ssm", size * size * heads)
    inner, size = config.need("ssm.inner_size"), config.need("ssm.state_size")
    groups = config.maybe("ssm.group_count", least=0) or 0
    config.understood("ssm.time_step_rank", "ssm.dt_b_c_rms")
    return State("conv", (kernel - 1) * (inner + 2 * groups * size)), State("ssm", size * inner)


def _kv_heads(config: Config, count: int) -> list[int]:
    """KV heads of each layer; attention heads where the file does not state them."""
    key = "attention.head_count_kv" if config.has("attention.head_count_kv") else "attention.head_count"
    return _per_layer(config, key, count)


def _per_layer(config: Config, key: str, count: int) -> list[int]:
    """A number for each layer, from one number or a list of them."""
    values = config.numbers_or_one(key)
    if len(values) == 1:
        return values * count
    if len(values) < count:
        raise config.bad(key, f"a list of {len(values)}", f"one number, or one for each of {count} layers")
    return values[:count]


gguf = Family(name="gguf", claims=_claims, layout=_layout)
