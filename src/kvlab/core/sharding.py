"""What one rank loads of a checkpoint: matrices split over tensor-parallel ranks, and what every rank keeps whole.

The scheme is Megatron-LM's (https://arxiv.org/abs/1909.08053), which vLLM and SGLang follow: projections into heads and
MLPs are split by rows, those out of them by columns, vocabularies by rows; norms, routers and the low-rank halves of
latent attention are copied, and so are KV heads once there are fewer of them than ranks.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

import msgspec

from kvlab.core.model import Tensor
from kvlab.core.units import GIB

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d{1,9})\.")
_TOWER = re.compile(
    r"(?:^|\.)(?:vision\w*|visual|audio\w*|multi_modal\w*|mm_\w+|img_\w+|image_\w+|patch_embed\w*|embed_vision|aligner)\."
)
_EXPERTS = re.compile(r"(?:^|\.)experts\.")
_COPIED = re.compile(
    r"norm|\bln_|router|(?:mlp|feed_forward|block_sparse_moe|ffn|mixer|moe)\.gate(?:\.|$)|shared_expert_gate|e_score"
    r"|q_a_proj|kv_a_proj|\bw(?:q_a|kv)\b|indexer|compressor|[fg]_a_proj|altup|laurel|per_layer_(?:input|model|proj)"
    r"|\bhc_|latent_proj|embed_positions|\bwpe\b"
)
_VOCABULARY = re.compile(r"embed_tokens|lm_head|\bwte\b|word_embeddings|embed_out|tok_embeddings|^output\.|\.embed\.")
_OUTPUT = re.compile(r"lm_head|embed_out|^output\.")
_HEAD = re.compile(r"lm_head|embed_out|^output\.|^(?:model\.)?norm|final_layernorm|ln_f")
_KEYS_VALUES = re.compile(r"\.(?:k_proj|v_proj)(?:\.|$)")
_FUSED = re.compile(r"\.(?:qkv_proj|query_key_value|Wqkv|W_pack|wqkv|c_attn)(?:\.|$)")
_FUSED_LATENT = "kv_b_proj"
_VOCABULARY_UNIT = 64
"""Rows to whose multiple a vocabulary is padded before it is split."""


class Split(msgspec.Struct, frozen=True, kw_only=True):
    """How ranks share a model."""

    tp: int = 1
    experts: int = 1
    """Ranks over which routed experts are split."""
    stages: tuple[range, ...]
    """The layers of each pipeline stage."""
    layers: int
    """Layers of the trunk; later ones only draft."""
    heads: int | None = None
    kv_heads: dict[int, int] = {}
    """KV heads of each layer that has some."""
    drafts: bool = False
    """Draft layers are loaded as well."""


class Share(msgspec.Struct, frozen=True):
    """Bytes on the fullest rank, and the range that is left by towers which some models copy and others split."""

    low: int
    bytes: int
    high: int


def share(tensors: tuple[Tensor, ...], split: Split) -> Share:
    """What the fullest rank loads of `tensors`."""
    tied = not any(_OUTPUT.search(tensor.name) for tensor in tensors)
    one, tp = len(split.stages) == 1, split.tp
    held, towers = [0.0] * len(split.stages), [0] * len(split.stages)
    for tensor in tensors:
        name = tensor.name
        if _kind(name) == "tower":
            towers[0] += tensor.bytes
            continue
        layer = _layer(name)
        if not split.drafts and _drafts(name, layer, split.layers):
            continue
        part = tensor.bytes * _fraction(tensor, split, layer)
        for stage in (0,) if one else _stages(name, layer, split, tied):
            held[stage] += part
    fullest = max(range(len(held)), key=lambda stage: held[stage] + towers[stage] / tp)
    least = round(held[fullest] + towers[fullest] / tp)
    return Share(least, least, round(held[fullest] + towers[fullest]))


def absorbed(tensors: tuple[Tensor, ...]) -> list[Tensor]:
    """The second copy, in 16 bits, of the projection that latent attention folds into its queries and outputs.

    vLLM keeps W_UK and W_UV (process_weights_after_loading in vllm/model_executor/layers/attention/mla_attention.py),
    SGLang w_kc and w_vc.
    """
    return [
        msgspec.structs.replace(tensor, bytes=2 * tensor.rows * tensor.columns)
        for tensor in tensors
        if _FUSED_LATENT in tensor.name and tensor.columns > 1
    ]


def left_out(tensors: tuple[Tensor, ...], split: Split) -> str:
    """What a ledger says of draft layers that are not loaded, all ranks together; "" when there are none."""
    unused = sum(tensor.bytes for tensor in tensors if not split.drafts and is_draft(tensor.name, split.layers))
    return f"; {unused / GIB:.2f} GiB of draft layers are not loaded" if unused else ""


def is_tower(name: str) -> bool:
    """Whether a tensor belongs to an encoder of images or sound, or leads from it to the language model."""
    return _kind(name) == "tower"


def is_expert(name: str) -> bool:
    """Whether a tensor belongs to routed experts."""
    return _kind(name) == "experts"


def is_draft(name: str, layers: int) -> bool:
    """Whether a tensor belongs to a layer that only drafts (multi-token prediction)."""
    return _drafts(name, _layer(name), layers)


def _drafts(name: str, layer: int | None, layers: int) -> bool:
    return (layer is not None and layer >= layers) or (
        "mtp." in name and (name.startswith(("mtp.", "model.mtp.")) or ".mtp." in name)
    )


_Kind = Literal["tower", "experts", "copied", "vocabulary", "keys_values", "fused", "other"]
_PATTERNS: tuple[tuple[_Kind, re.Pattern[str]], ...] = (
    ("tower", _TOWER),
    ("experts", _EXPERTS),
    ("copied", _COPIED),
    ("vocabulary", _VOCABULARY),
    ("keys_values", _KEYS_VALUES),
    ("fused", _FUSED),
)
"""The first that a name matches says how it is split."""


@lru_cache(maxsize=1 << 16)
def _kind(name: str) -> _Kind:
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), "other")


@lru_cache(maxsize=1 << 16)
def _layer(name: str) -> int | None:
    found = _LAYER.search(name)
    return int(found[1]) if found else None


def _stages(name: str, layer: int | None, split: Split, tied: bool) -> list[int]:
    """The stages that load a tensor: a layer's own, the last for the head, the first for everything else."""
    last = len(split.stages) - 1
    if layer is not None:
        return [next((at for at, stage in enumerate(split.stages) if layer in stage), last)]
    if _HEAD.search(name):
        return [last]
    if tied and last and _VOCABULARY.search(name):
        return [0, last]
    return [0]


def _fraction(tensor: Tensor, split: Split, layer: int | None) -> float:
    """The share of a tensor that one rank of its stage holds."""
    tp, kind = split.tp, _kind(tensor.name)
    kv_heads = split.kv_heads.get(layer, tp) if layer is not None else tp
    if kind == "experts":
        return 1 / split.experts
    if kind == "vocabulary":
        padded = -(-tensor.rows // _VOCABULARY_UNIT) * _VOCABULARY_UNIT
        return padded / tensor.rows / tp
    if kind == "keys_values":
        return 1 / min(tp, kv_heads)
    if kind == "fused" and split.heads is not None and kv_heads < tp:
        return (split.heads / tp + 2) / (split.heads + 2 * kv_heads)
    return 1 if kind == "copied" or tensor.columns == 1 else 1 / tp
