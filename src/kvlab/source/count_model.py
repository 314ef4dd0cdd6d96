"""All matrices of a language model: embeddings, layers, draft layers, head."""

from __future__ import annotations

from msgspec.structs import replace

from kvlab.core.config import Config
from kvlab.source import count_attention, count_compressed, count_gemma, count_mixers, count_mlp
from kvlab.source.count_attention import Shape
from kvlab.source.count_parts import Part, norm

_CROSS = "cross_attention_layers"
_VOCAB = ("vocab_size", "padded_vocab_size")
_POSITIONS = ("n_positions", "max_position_embeddings", "n_ctx")
_CLASS_VOCAB = {"gemma3_text": 262208}
"""Where a published nested config leaves the vocabulary to its class (configuration_gemma3.py)."""


def trunk(shape: Shape, tied: bool) -> list[Part]:
    """Everything that every engine loads."""
    config, traits, hidden = shape.config, shape.traits, shape.hidden
    vocab = _vocab(shape)
    parts = [Part("model.embed_tokens", vocab, hidden, embedding=True)]
    if traits.positions is not None:
        parts.append(Part("model.embed_positions", config.need(*_POSITIONS) + traits.positions, hidden, embedding=True))
    if not tied:
        parts.append(Part("lm_head", vocab, hidden, embedding=True))
    if traits.head_bias or config.flag("lm_head_bias"):
        parts.append(Part("lm_head.bias", vocab))
    if traits.final_norm:
        parts += norm("model.norm", hidden, traits.norm_bias)
    if traits.embedding_norm:
        parts += norm("model.embed_norm", hidden, traits.norm_bias)
    parts += count_gemma.once(shape)
    kinds = count_mixers.mixer_kinds(config, shape.layers)
    if kinds is not None and len(kinds) != shape.layers:
        raise config.bad("layer_types", f"{len(kinds)} kinds", f"one kind for each of {shape.layers} layers")
    for layer in range(shape.layers):
        parts += _layer(shape, layer, kinds[layer] if kinds else traits.layer)
    return parts


def drafts(shape: Shape) -> list[Part]:
    """Multi-token prediction layers that the checkpoint holds and an engine loads only to speculate with."""
    config, traits, hidden = shape.config, shape.traits, shape.hidden
    count = config.maybe("num_nextn_predict_layers", "mtp_num_hidden_layers", least=0)
    count = traits.draft_layers if count is None else count
    parts: list[Part] = []
    for index in range(count):
        layer = shape.layers + index
        at = f"layers.{layer}" if traits.draft_copies else f"mtp.layers.{index}"
        parts += [Part(f"{at}.eh_proj", hidden, 2 * hidden), Part(f"{at}.norms", 3 * hidden)]
        for kind in _draft_kinds(config):
            drafted = _layer(shape, layer, kind)
            parts += [replace(part, name=part.name.replace(f"layers.{layer}", at)) for part in drafted]
        if traits.draft_copies and shape.kind in _COPIES:
            parts.append(Part(f"{at}.embed_tokens", 2 * _vocab(shape), hidden, embedding=True))
    return parts


_COPIES = ("deepseek_v3", "deepseek_v32")
"""Their checkpoints repeat embeddings and head in the draft layer; GLM's do not."""


def _draft_kinds(config: Config) -> list[str]:
    pattern = config.text("mtp_hybrid_override_pattern")
    if pattern is not None:
        return [{"*": "attention", "E": "moe", "M": "mamba", "-": "mlp"}.get(letter, letter) for letter in pattern]
    listed = config.items("mtp_layers_block_type")
    return [str(kind) for kind in listed] if listed else ["attention"]


def _vocab(shape: Shape) -> int:
    return shape.config.maybe(*_VOCAB) or _CLASS_VOCAB.get(shape.kind) or shape.config.need(*_VOCAB)


def _layer(shape: Shape, layer: int, kind: str) -> list[Part]:
    """One layer; in hybrids of single blocks (Nemotron-H) a layer is only a mixer or only an MLP."""
    config, traits = shape.config, shape.traits
    at = f"layers.{layer}"
    single = traits.mixer == "mixer"
    norms = 1 if _parallel(config) else traits.norms
    parts = norm(f"{at}.norms", norms * shape.hidden, traits.norm_bias) if norms else []
    if kind in ("mlp", "moe") and single:
        return parts + _feed(shape, layer, f"{at}.mixer", kind == "moe")
    parts += _mixer(shape, layer, kind, at)
    if single:
        return parts
    if shape.kind.startswith("deepseek_") or config.flag("mhc"):
        parts += count_compressed.hyper(shape, at)
    sparse = count_mlp.is_sparse(shape, layer)
    if shape.kind == "gemma4_text":
        return parts + count_gemma.feed(shape, layer, at)
    parts += count_gemma.extras(shape, at)
    return parts + _feed(shape, layer, f"{at}.{traits.mlp}", sparse)


def _parallel(config: Config) -> bool:
    """Falcon 7B: attention and MLP read the same norm; the newer layout has one for each."""
    return bool(config.flag("parallel_attn")) and not config.flag("new_decoder_architecture")


def _feed(shape: Shape, layer: int, at: str, sparse: bool) -> list[Part]:
    if sparse:
        return count_mlp.experts(shape, at)
    size = count_mlp.width(shape, layer)
    return count_mlp.mlp(shape, at, size) if size else []


def _mixer(shape: Shape, layer: int, kind: str, at: str) -> list[Part]:
    if kind == "linear":
        return count_mixers.delta(shape, f"{at}.linear_attn")
    if kind == "kda":
        return count_mixers.kda(shape, f"{at}.self_attn")
    if kind == "mamba1":
        return count_mixers.mamba1(shape, f"{at}.{shape.traits.mixer}")
    if kind == "mamba":
        return count_mixers.mamba2(shape, f"{at}.{shape.traits.mixer}")
    if kind == "conv":
        return count_mixers.short_conv(shape, f"{at}.conv")
    if kind != "attention":
        raise shape.config.bad("layer_types", kind, "a kind of layer that kvlab can count")
    at = f"{at}.{shape.traits.mixer}"
    if shape.config.has("compress_ratios"):
        return count_compressed.compressed(shape, layer, at)
    if count_attention.is_latent(shape.config):
        return count_attention.latent(shape, layer, at)
    if layer in (shape.config.numbers(_CROSS) or []):
        # Llama 3.2 Vision: queries and keys of cross attention are normalised, two gates scale what it adds.
        crossed = replace(shape, traits=replace(shape.traits, qk_norm="head"))
        return [*count_attention.grouped(crossed, layer, at), Part(f"{at}.gates", 2)]
    return count_attention.grouped(shape, layer, at)
