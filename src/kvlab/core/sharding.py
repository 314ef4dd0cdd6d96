"""What one rank loads of a checkpoint: matrices split over tensor-parallel ranks, and what every rank keeps whole.

The scheme is Megatron-LM's (https://arxiv.org/abs/1909.08053), which vLLM and SGLang follow: projections into heads and
MLPs are split by rows, those out of them by columns, vocabularies by rows; norms, routers and the low-rank halves of
latent attention are copied, and so are KV heads once there are fewer of them than ranks.
"""

from __future__ import annotations

import re

import msgspec

from kvlab.core.model import Tensor

_LAYER = re.compile(r"(?:^|\.)(?:layers|h|blocks|block)\.(\d+)\.")
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
    sums = [[0.0, 0.0, 0.0] for _ in split.stages]
    for tensor in tensors:
        layer = _layer(tensor.name)
        tower = is_tower(tensor.name)
        if not tower and not split.drafts and is_draft(tensor.name, split.layers):
            continue
        part = _fraction(tensor, split, layer, tower)
        kept = (1 / split.tp, part, 1.0) if tower else (part, part, part)
        for stage in _stages(tensor.name, None if tower else layer, split, tied):
            sums[stage] = [total + tensor.bytes * ratio for total, ratio in zip(sums[stage], kept, strict=True)]
    low, middle, high = max(sums, key=lambda found: found[1])
    return Share(round(low), round(middle), round(high))


def is_tower(name: str) -> bool:
    """Whether a tensor belongs to an encoder of images or sound, or leads from it to the language model."""
    return _TOWER.search(name) is not None


def is_draft(name: str, layers: int) -> bool:
    """Whether a tensor belongs to a layer that only drafts (multi-token prediction)."""
    if name.startswith(("mtp.", "model.mtp.", "language_model.mtp.")) or ".mtp." in name:
        return True
    layer = _layer(name)
    return layer is not None and layer >= layers


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


def _fraction(tensor: Tensor, split: Split, layer: int | None, tower: bool) -> float:
    """The share of a tensor that one rank of its stage holds."""
    name, tp = tensor.name, split.tp
    if tower:
        return 1 / tp
    if _EXPERTS.search(name):
        return 1 / split.experts
    if _COPIED.search(name):
        return 1
    if _VOCABULARY.search(name):
        padded = -(-tensor.rows // _VOCABULARY_UNIT) * _VOCABULARY_UNIT
        return padded / tensor.rows / tp
    kv_heads = split.kv_heads.get(layer, tp) if layer is not None else tp
    if _KEYS_VALUES.search(name):
        return 1 / min(tp, kv_heads)
    if _FUSED.search(name) and split.heads is not None and kv_heads < tp:
        return (split.heads / tp + 2) / (split.heads + 2 * kv_heads)
    return 1 if tensor.columns == 1 else 1 / tp
