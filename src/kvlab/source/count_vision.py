"""Matrices of vision towers whose sub-config states their shape. Source: the towers' classes in Transformers."""

from __future__ import annotations

from collections.abc import Callable

from kvlab.core.config import Config
from kvlab.source.count_parts import Part

_LAYERS = ("num_hidden_layers", "depth")
_HEADS_IN = ("in_channels", "in_chans", "num_channels")


def tower(root: Config, kind: str, hidden: int) -> list[Part] | None:
    """The tower of `kind` (the root's model_type) and the projector to `hidden`; None when its shape is not known."""
    vision = root.sub("vision_config", "img_processor")
    if vision is None:
        return []
    counted = _TOWERS.get(str(vision.peek("model_type"))) or _TOWERS.get(kind)
    return None if counted is None else counted(root, vision, hidden)


def _part(name: str, out: int, into: int = 1, copies: int = 1) -> Part:
    return Part(f"vision_tower.{name}", out, into, copies, always16=True)


def _block(width: int, inner: int, gated: bool = False, bias: bool = True, norm_bias: bool = True) -> int:
    """Parameters of one transformer block: four projections, two norms, an MLP."""
    matrices = 4 * width * width + (3 if gated else 2) * width * inner
    biases = 4 * width + inner * (2 if gated else 1) + width if bias else 0
    return matrices + biases + (4 if norm_bias else 2) * width


def _siglip(root: Config, vision: Config, hidden: int) -> list[Part]:
    width, inner = vision.need("hidden_size"), vision.need("intermediate_size")
    patch, layers = vision.need("patch_size"), vision.need("num_hidden_layers")
    grid = vision.maybe("image_size")
    rows = (grid // patch) ** 2 if grid else vision.need("num_patches", "num_positions")
    parts = [
        _part("embeddings.patch", width, 3 * patch * patch + 1),
        _part("embeddings.position", rows, width),
        _part("encoder", _block(width, inner), 1, layers),
        _part("post_layernorm", 2 * width),
    ]
    if root.has("mm_tokens_per_image"):
        # Gemma 3: one matrix and one norm lead to the language model.
        return [*parts, _part("projector", width, hidden + 1)]
    factor, middle = root.need("downsample_factor"), root.need("projector_hidden_size")
    stacked = width * factor * factor
    return [*parts, _part("projector.1", middle, stacked + 1), _part("projector.2", hidden, middle + 1)]


def _qwen(root: Config, vision: Config, hidden: int) -> list[Part]:
    """Qwen2-VL, 2.5-VL, 3-VL, 3.5: patches over two frames, a merger of 2 x 2 patches, deep stacks of mergers."""
    kind = str(root.peek("model_type"))
    width = vision.maybe("embed_dim") or vision.need("hidden_size")
    ratio = vision.maybe("mlp_ratio")
    inner = ratio * width if ratio else vision.need("intermediate_size")
    merged = width * vision.need("spatial_merge_size") ** 2
    out = vision.maybe("out_hidden_size") or hidden
    v25 = kind.startswith("qwen2_5")
    v3 = kind.startswith("qwen3")
    pixels = vision.need(*_HEADS_IN) * vision.need("temporal_patch_size") * vision.need("patch_size") ** 2
    merger = merged * merged + merged + out * merged + out
    parts = [
        _part("patch_embed", width, pixels + (1 if v3 else 0)),
        _part("blocks", _block(width, inner, gated=v25, norm_bias=not v25), 1, vision.need(*_LAYERS)),
        _part("merger", merger + (width if v25 else 2 * width)),
    ]
    if v3:
        deep = len(vision.items("deepstack_visual_indexes") or [])
        parts.append(_part("pos_embed", vision.need("num_position_embeddings"), width))
        parts.append(_part("deepstack", merger + 2 * merged, 1, deep))
    return parts


def _pixtral(root: Config, vision: Config, hidden: int) -> list[Part]:
    """Pixtral: gated blocks without biases; Mistral 3 merges patches before two projections."""
    width, inner = vision.need("hidden_size"), vision.need("intermediate_size")
    patch, merge = vision.need("patch_size"), root.maybe("spatial_merge_size")
    parts = [
        _part("patch_conv", width, vision.need(*_HEADS_IN) * patch * patch),
        _part("blocks", _block(width, inner, True, False, False), 1, vision.need("num_hidden_layers")),
        _part("ln_pre", width),
        _part("projector", hidden * width + hidden * hidden),
    ]
    return [*parts, _part("merger", width, width * merge * merge + 1)] if merge else parts


def _llama4(root: Config, vision: Config, hidden: int) -> list[Part]:
    width, inner = vision.need("hidden_size"), vision.need("intermediate_size")
    patch, size = vision.need("patch_size"), vision.need("image_size")
    shuffled, out = vision.need("projector_input_dim"), vision.need("projector_output_dim")
    rows = (size // patch) ** 2 + 1
    return [
        _part("patch_embedding", width, 3 * patch * patch),
        _part("position", rows + 1, width),
        _part("blocks", _block(width, inner), 1, vision.need("num_hidden_layers")),
        _part("norms", 4 * width),
        _part("adapter", shuffled * inner + shuffled * out),
        _part("projector", hidden, vision.need("vision_output_dim")),
    ]


def _gemma4(root: Config, vision: Config, hidden: int) -> list[Part]:
    width, inner = vision.need("hidden_size"), vision.need("intermediate_size")
    patch, layers = vision.need("patch_size"), vision.need("num_hidden_layers")
    head = vision.need("head_dim")
    block = _block(width, inner, True, False, False) + 2 * width + 2 * head
    parts = [
        _part("patch_embed", width, 3 * patch * patch),
        _part("position", 2 * vision.need("position_embedding_size"), width),
        _part("blocks", block, 1, layers),
        _part("projector", hidden, width),
    ]
    return [*parts, _part("standardize", 2 * width)] if vision.flag("standardize") else parts


def _moon(root: Config, vision: Config, hidden: int) -> list[Part]:
    """MoonViT (Kimi): a grid of positions, a merger of 2 x 2 patches."""
    width, inner = vision.need("vt_hidden_size"), vision.need("vt_intermediate_size")
    patch = vision.need("patch_size")
    rows = vision.need("init_pos_emb_height") * vision.need("init_pos_emb_width")
    merged = 4 * vision.need("mm_hidden_size")
    wider = (vision.maybe("qkv_hidden_size") or width) - width
    return [
        _part("patch_embed", width, 3 * patch * patch + 1),
        _part("position", rows, width),
        _part("blocks", _block(width, inner) + 4 * width * wider, 1, vision.need("vt_num_hidden_layers")),
        _part("projector", merged * merged + merged + hidden * merged + hidden + 4 * width),
    ]


def _phi3(root: Config, vision: Config, hidden: int) -> list[Part] | None:
    """Phi-3 Vision names its tower, CLIP ViT-L/14 at 336 pixels; two projections take 2 x 2 patches."""
    if "clip-vit-large-patch14-336" not in (vision.text("model_name") or ""):
        return None
    width = vision.need("image_dim_out")
    merged = 4 * width
    return [
        _part("patch_embedding", width, 3 * 14 * 14),
        _part("position", 24 * 24 + 2, width),  # and the class embedding
        _part("blocks", _block(width, 4 * width), 1, 24),
        _part("norms", 4 * width),
        _part("projector", hidden * (merged + 1) + hidden * (hidden + 1) + 2 * merged),
    ]


def _mllama(root: Config, vision: Config, hidden: int) -> list[Part]:
    """Llama 3.2 Vision: local and gated global blocks, embeddings of tiles and aspect ratios."""
    width, inner = vision.need("hidden_size"), vision.need("intermediate_size")
    patch, tiles = vision.need("patch_size"), vision.need("max_num_tiles")
    rows = (vision.need("image_size") // patch) ** 2 + 1
    ratios = len(vision.items("supported_aspect_ratios") or []) + 1
    block = _block(width, inner) - 4 * width  # attention has no biases
    layers = vision.need("num_hidden_layers") + vision.need("num_global_layers")
    return [
        _part("patch_embedding", width, 3 * patch * patch),
        _part("position", rows + ratios * tiles * rows + 2 * ratios * tiles, width),
        _part("blocks", block, 1, layers),
        _part("norms", 5 * width),
        _part("projector", hidden, vision.need("vision_output_dim") + 1),
    ]


_TOWERS: dict[str, Callable[[Config, Config, int], list[Part] | None]] = {
    "siglip_vision_model": _siglip,
    "siglip2_vision_model": _siglip,
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe"), _qwen),
    "pixtral": _pixtral,
    "llama4_vision_model": _llama4,
    "gemma4_vision": _gemma4,
    "kimi_k25": _moon,
    "kimi_k3": _moon,
    "phi3_v": _phi3,
    "mllama_vision_model": _mllama,
}
