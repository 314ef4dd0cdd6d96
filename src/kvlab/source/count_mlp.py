"""Matrices of the feed-forward part: dense, and experts with their router and shared experts."""

from __future__ import annotations

from kvlab.core.config import Config
from kvlab.source.count_attention import Shape
from kvlab.source.count_parts import Part, linear

EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_WIDTH = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "dense_intermediate_size")
_EXPERT_WIDTH = ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_intermediate_size")


def width(shape: Shape, layer: int) -> int:
    """The dense MLP's width in a layer; 0 where the block has none."""
    config, traits = shape.config, shape.traits
    blocks = config.items("block_configs")
    if blocks is not None:
        return _block_width(config, blocks[layer], shape.hidden)
    if config.has("intermediate_size_mlp"):
        return config.need("intermediate_size_mlp")
    if config.has("dense_intermediate_size"):
        return config.need("dense_intermediate_size")
    listed = config.numbers("intermediate_size") if isinstance(config.peek("intermediate_size"), list) else None
    if listed is not None:
        return listed[layer]
    stated = config.maybe(*_WIDTH)
    if stated is None and traits.ffn_factor is not None:
        return traits.ffn_factor * shape.hidden
    stated = stated or config.need(*_WIDTH)
    if config.flag("block_auto_adjust_ff_dim"):
        return _adjusted(config, stated)
    shared = config.maybe("num_kv_shared_layers", least=0) or 0
    if config.flag("use_double_wide_mlp") and layer >= shape.layers - shared:
        return 2 * stated
    return stated // 2 if traits.ffn_halves else stated


def mlp(shape: Shape, at: str, size: int) -> list[Part]:
    """Up, down and, where the class has one, gate."""
    stated = shape.config.flag("mlp_bias", "use_mlp_bias", "use_bias", *(("bias",) if shape.kind == "falcon" else ()))
    bias = shape.traits.mlp_bias if stated is None else stated
    parts = linear(f"{at}.up_proj", size, shape.hidden, bias) + linear(f"{at}.down_proj", shape.hidden, size, bias)
    return parts + linear(f"{at}.gate_proj", size, shape.hidden, bias) if shape.traits.gated else parts


def is_sparse(shape: Shape, layer: int) -> bool:
    """Whether a layer's feed-forward part holds experts."""
    config = shape.config
    if experts_of(config) is None:
        return False
    kinds = config.items("mlp_layer_types")
    if kinds is not None and layer < len(kinds):
        return kinds[layer] == "sparse"
    every = config.numbers("moe_layer_freq") if isinstance(config.peek("moe_layer_freq"), list) else None
    if every is not None:
        return layer >= len(every) or every[layer] == 1
    first = config.maybe("first_k_dense_replace", "num_dense_layers", least=0)
    if first is not None:
        return layer >= first and layer % (config.maybe("moe_layer_freq") or 1) == 0
    listed = config.numbers("moe_layers")
    if listed:
        return layer in listed
    step = config.maybe("interleave_moe_layer_step", "decoder_sparse_step") or 1
    return layer not in (config.numbers("mlp_only_layers") or []) and (layer + 1) % step == 0


def experts_of(config: Config) -> int | None:
    """Routed experts of a sparse layer; None for a dense model."""
    nested = config.sub("ffn_config")
    count = config.maybe(*EXPERTS, least=0) or (nested.maybe("moe_num_experts") if nested else None)
    return count if count and count > 1 else None


def expert_width(shape: Shape) -> int:
    """Width of one routed expert."""
    config, nested = shape.config, shape.config.sub("ffn_config")
    stated = config.maybe(*_EXPERT_WIDTH) or (nested.maybe("ffn_hidden_size") if nested else None)
    if stated is None and shape.traits.experts_use_ffn:
        return config.need("intermediate_size")
    return stated or config.need(*_EXPERT_WIDTH)


def experts(shape: Shape, at: str) -> list[Part]:
    """Router, routed experts and shared experts of one layer."""
    config, traits, hidden = shape.config, shape.traits, shape.hidden
    count, size = experts_of(config) or 0, expert_width(shape)
    inner = config.maybe("moe_latent_size", "routed_expert_hidden_size") or hidden
    names = ["up_proj", "gate_proj"] if traits.gated else ["up_proj"]
    parts = [Part(f"{at}.experts.0.{name}", size, inner, count, plain=False, experts=True) for name in names]
    parts.append(Part(f"{at}.experts.0.down_proj", inner, size, count, plain=False, experts=True))
    if traits.expert_bias:
        parts.append(Part(f"{at}.experts.bias", size * len(names) + hidden, 1, count))
    if inner != hidden:
        parts += linear(f"{at}.fc1_latent_proj", inner, hidden) + linear(f"{at}.fc2_latent_proj", hidden, inner)
        parts += [Part(f"{at}.latent_norm", inner)] if config.flag("latent_moe_use_norm") else []
    parts.append(Part(f"{at}.gate", count, hidden))
    if traits.expert_bias or config.flag("use_routing_bias") or _corrects(config):
        parts.append(Part(f"{at}.gate.bias", count))
    return parts + _shared(shape, at, size)


def _shared(shape: Shape, at: str, size: int) -> list[Part]:
    """Shared experts are one MLP of their summed width."""
    config = shape.config
    count = config.maybe("n_shared_experts", "num_shared_experts", least=0)
    stated = config.maybe(
        "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "share_expert_dim", least=0
    )
    if stated is not None:
        together = stated * (count or 1) if count != 0 else 0
    elif config.has("interleave_moe_layer_step"):
        together = size  # Llama 4: every sparse layer has one, of the routed experts' width.
    else:
        together = (count or 0) * size
    if not together:
        return []
    shared = mlp(shape, f"{at}.{'shared_expert' if shape.traits.shared_gate else 'shared_experts'}", together)
    return [*shared, Part(f"{at}.shared_expert_gate", 1, shape.hidden)] if shape.traits.shared_gate else shared


def _corrects(config: Config) -> bool:
    """Routers that balance without a loss hold a correction for each expert."""
    said = (config.text("scoring_func"), config.text("topk_method"), config.text("moe_router_activation_func"))
    return "sigmoid" in said or "noaux_tc" in said or (config.has("n_group") and config.has("mamba_num_heads"))


def _adjusted(config: Config, stated: int) -> int:
    """LFM2: two thirds of the stated width, scaled, rounded up to a multiple."""
    size = 2 * stated // 3
    factor = config.peek("block_ffn_dim_multiplier")
    if isinstance(factor, int | float) and not isinstance(factor, bool):
        size = int(factor * size)
    unit = config.need("block_multiple_of")
    return -(-size // unit) * unit


def _block_width(config: Config, block: object, hidden: int) -> int:
    """Nemotron NAS: 2/3 x 4 x... The block states a multiple of the hidden size, rounded up to 256 rows."""
    ffn = block.get("ffn") if isinstance(block, dict) else None
    if not isinstance(ffn, dict):
        raise config.bad("block_configs", block, "a list of objects with an ffn object")
    if ffn.get("no_op"):
        return 0
    stated, factor = ffn.get("intermediate_size"), ffn.get("ffn_mult")
    if isinstance(stated, int) and not isinstance(stated, bool):
        return stated
    if ffn.get("replace_with_linear") or isinstance(factor, bool) or not isinstance(factor, int | float):
        raise config.bad("block_configs", ffn, "a block with ffn_mult")
    return -(-int(2 * factor * hidden / 3) // 256) * 256
