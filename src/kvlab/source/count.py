"""Weights of a config that comes without any: parameters counted from its shape, in the bytes that it declares."""

from __future__ import annotations

from msgspec.structs import replace

from kvlab.core.attention import HIDDEN
from kvlab.core.config import Config
from kvlab.core.errors import KvlabError
from kvlab.core.model import Doubt, Tensor, Weights
from kvlab.source import count_bytes, count_model, count_vision
from kvlab.source.count_attention import Shape, shape
from kvlab.source.count_bytes import Rules
from kvlab.source.count_parts import Part, total
from kvlab.source.count_traits import TRAITS

_ERROR = 0.01
"""Share by which the counts of known shapes differ from published ones at most (tests/source/test_count.py)."""
MOST_BYTES = 1 << 48
"""256 TiB: a hundred times the largest checkpoint that was published."""
_TOWER_BYTES = 2_000_000_000
"""Room for a tower that is not counted: 1 B parameters of 16 bits; SigLIP so400m has 0.43 B, Qwen's towers 0.7 B."""
_TOWERS = ("vision_config", "audio_config", "img_processor", "vision_model")


def count(config: Config, quant: Config | None = None) -> tuple[Weights | None, tuple[Doubt, ...]]:
    """Bytes of the checkpoint that the config describes, and what was not counted; None for a shape not known.

    `quant` is ModelOpt's own file where there is one. Draft layers for speculation are part of the checkpoint; `low`
    is the size without them.
    """
    try:
        return _counted(config.fresh(), quant.fresh() if quant is not None else None)
    except (KvlabError, IndexError):
        return None, ()


def parameters(config: Config) -> int | None:
    """Parameters of the checkpoint without draft layers; None for a shape that is not known."""
    try:
        root = config.fresh()
        language, kind = language_of(root)
        if kind not in TRAITS:
            return None
        described = shape(language, TRAITS[kind], kind)
        return total(_everything(root, described)[0])
    except (KvlabError, IndexError):
        return None


def _counted(root: Config, quant: Config | None) -> tuple[Weights | None, tuple[Doubt, ...]]:
    language, kind = language_of(root)
    traits = TRAITS.get(kind)
    rules = count_bytes.rules(root, language, quant)
    plain = count_bytes.dtype_bytes(root, language)
    if traits is None or rules is None or plain is None:
        return None, ()
    described = shape(language, traits, kind)
    parts, doubts = _everything(root, described)
    drafts = count_model.drafts(described)
    if not rules.fit(parts + drafts):
        return None, ()
    weights = _weights(parts, drafts, rules, plain)
    if weights.bytes > MOST_BYTES:
        text = f"{weights.because}, more than any model has: check its sizes, or give --weights-gib X"
        return None, (Doubt("weights", text),)
    return _without(weights, doubts), doubts


def _weights(parts: list[Part], drafts: list[Part], rules: Rules, plain: int) -> Weights:
    trunk = count_bytes.total_bytes(parts, rules, plain)
    extra = count_bytes.total_bytes(drafts, rules, plain)
    # Engines load float32 as 16 bits unless told otherwise.
    least = trunk if plain == 2 else count_bytes.total_bytes(parts, rules, 2)
    because = f"{total(parts):,} parameters counted from the config"
    if drafts:
        because += f" and {total(drafts):,} of draft layers"
    whole = trunk + extra
    tensors = tuple(
        Tensor(part.name, count_bytes.part_bytes(part, rules, plain), part.out, part.into, part.copies)
        for part in parts + drafts
    )
    low, high = round(least * (1 - _ERROR)), round(whole * (1 + _ERROR))
    return Weights(whole, "estimated", because, low=low, high=high, tensors=tensors)


def _without(weights: Weights, doubts: tuple[Doubt, ...]) -> Weights:
    """The same weights with room for what was not counted."""
    if not doubts or weights.high is None:
        return weights
    because = f"{weights.because}, without {', '.join(doubt.key for doubt in doubts)}"
    return replace(weights, because=because, high=weights.high + _TOWER_BYTES * len(doubts))


def _everything(root: Config, described: Shape) -> tuple[list[Part], tuple[Doubt, ...]]:
    """The trunk and the towers, with a doubt for a tower whose shape is not known."""
    parts = count_model.trunk(described, tied(root, described))
    kind = str(root.peek("model_type"))
    try:
        tower = count_vision.tower(root, kind, described.config.need(*HIDDEN))
    except KvlabError:
        tower = None
    stated = [key for key in _TOWERS if root.has(key)]
    if tower is not None:
        parts = parts + tower
        stated = [key for key in stated if key not in ("vision_config", "img_processor")]
    return parts, tuple(
        Doubt(key, "a tower whose weights are not counted: the estimate is the language model's") for key in stated
    )


def language_of(root: Config) -> tuple[Config, str]:
    """The language model's config and its model_type."""
    language = root.language()
    kind = language.peek("model_type") or root.peek("model_type")
    return language, str(kind)


def tied(root: Config, described: Shape) -> bool:
    """Whether the head shares the embeddings' matrix."""
    for config in (described.config, root):
        stated = config.flag("tie_word_embeddings")
        if stated is not None:
            return stated
    return described.traits.tied
