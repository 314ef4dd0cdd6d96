"""Matrices of layers that keep a state: gated DeltaNet, KDA, Mamba and short convolutions."""

from __future__ import annotations

from kvlab.core.config import Config
from kvlab.source.count_attention import Shape
from kvlab.source.count_parts import Part, linear, norm


def delta(shape: Shape, at: str) -> list[Part]:
    """Gated DeltaNet as in Qwen3-Next: fused projections, a short convolution, a decay per head."""
    config, hidden = shape.config, shape.hidden
    values = config.need("linear_num_value_heads")
    keys_width = config.need("linear_num_key_heads") * config.need("linear_key_head_dim")
    values_width = values * config.need("linear_value_head_dim")
    return [
        *linear(f"{at}.in_proj_qkv", 2 * keys_width + values_width, hidden),
        *linear(f"{at}.in_proj_z", values_width, hidden),
        *linear(f"{at}.in_proj_b", values, hidden),
        *linear(f"{at}.in_proj_a", values, hidden),
        Part(f"{at}.conv1d", 2 * keys_width + values_width, config.need("linear_conv_kernel_dim")),
        *norm(f"{at}.A_log", values),
        *norm(f"{at}.dt_bias", values),
        *norm(f"{at}.norm", config.need("linear_value_head_dim")),
        *linear(f"{at}.out_proj", hidden, values_width),
    ]


def kda(shape: Shape, at: str) -> list[Part]:
    """Kimi Delta Attention: separate projections and convolutions, low-rank gates. https://arxiv.org/abs/2510.26692"""
    config, hidden = shape.config.need_sub("linear_attn_config"), shape.hidden
    heads, size, kernel = config.need("num_heads"), config.need("head_dim"), config.need("short_conv_kernel_size")
    width = heads * size
    parts: list[Part] = []
    for letter in "qkv":
        parts += linear(f"{at}.{letter}_proj", width, hidden)
        parts.append(Part(f"{at}.{letter}_conv1d", width, kernel))
    parts += linear(f"{at}.f_a_proj", size, hidden) + linear(f"{at}.f_b_proj", width, size)
    if config.flag("use_full_rank_gate"):
        parts += linear(f"{at}.g_proj", width, hidden)
    else:
        parts += linear(f"{at}.g_a_proj", size, hidden) + linear(f"{at}.g_b_proj", width, size)
    parts += linear(f"{at}.b_proj", heads, hidden) + norm(f"{at}.A_log", heads) + norm(f"{at}.dt_bias", width)
    return [*parts, *norm(f"{at}.o_norm", size), *linear(f"{at}.o_proj", hidden, width)]


def mamba2(shape: Shape, at: str) -> list[Part]:
    """Mamba-2: one input projection, a convolution, a decay per head. https://arxiv.org/abs/2405.21060"""
    config, hidden = shape.config, shape.hidden
    heads = config.need("mamba_num_heads", "mamba_n_heads", "num_heads")
    width = heads * config.need("mamba_head_dim", "mamba_d_head", "head_dim")
    groups = config.need("n_groups", "mamba_n_groups")
    state = config.need("ssm_state_size", "mamba_d_state", "state_size")
    kernel = config.need("conv_kernel", "mamba_d_conv")
    conv = width + 2 * groups * state
    bias = bool(config.flag("mamba_proj_bias", "use_bias"))
    return [
        *linear(f"{at}.in_proj", width + conv + heads, hidden, bias),
        Part(f"{at}.conv1d", conv, kernel + (0 if config.flag("use_conv_bias") is False else 1)),
        *norm(f"{at}.A_log", heads),
        *norm(f"{at}.D", heads),
        *norm(f"{at}.dt_bias", heads),
        *norm(f"{at}.norm", width),
        *linear(f"{at}.out_proj", hidden, width, bias),
    ]


def mamba1(shape: Shape, at: str) -> list[Part]:
    """Mamba: input-dependent step, B and C from one projection. https://arxiv.org/abs/2312.00752"""
    config, hidden = shape.config, shape.hidden
    width = config.maybe("intermediate_size") or config.need("expand") * hidden
    state, rank = config.need("state_size"), config.need("time_step_rank")
    kernel, bias = config.need("conv_kernel"), bool(config.flag("use_bias"))
    return [
        *linear(f"{at}.in_proj", 2 * width, hidden, bias),
        Part(f"{at}.conv1d", width, kernel + (0 if config.flag("use_conv_bias") is False else 1)),
        *linear(f"{at}.x_proj", rank + 2 * state, width),
        *linear(f"{at}.dt_proj", width, rank, bias=True),
        Part(f"{at}.A_log", width, state),
        *norm(f"{at}.D", width),
        *linear(f"{at}.out_proj", hidden, width, bias),
    ]


def short_conv(shape: Shape, at: str) -> list[Part]:
    """LFM2's gated short convolution."""
    config, hidden = shape.config, shape.hidden
    bias = bool(config.flag("conv_bias"))
    return [
        *linear(f"{at}.in_proj", 3 * hidden, hidden, bias),
        Part(f"{at}.conv", hidden, config.need("conv_L_cache") + (1 if bias else 0)),
        *linear(f"{at}.out_proj", hidden, hidden, bias),
    ]


_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def mixer_kinds(config: Config, layers: int) -> list[str] | None:
    """What each layer holds where the config says so: attention, linear, kda, mamba, conv, mlp or moe."""
    pattern = config.text("hybrid_override_pattern")
    if pattern is not None:
        return [_LETTERS.get(letter, letter) for letter in pattern]
    linear_config = config.sub("linear_attn_config")
    if linear_config is not None:
        return _kda_kinds(linear_config, layers)
    listed = config.items("layers_block_type", "layer_types")
    if listed is not None:
        return [_named(str(kind)) for kind in listed[:layers]]
    every = config.maybe("full_attention_interval") if config.has("linear_num_value_heads") else None
    if every is not None:
        return ["attention" if (layer + 1) % every == 0 else "linear" for layer in range(layers)]
    attention = config.numbers("full_attn_idxs")
    if attention is not None:
        return ["attention" if layer in attention else "conv" for layer in range(layers)]
    if config.has("conv_L_cache"):
        raise config.bad("layer_types", None, "a list of the layers' kinds")
    return None


def _kda_kinds(config: Config, layers: int) -> list[str]:
    """The lists count from 1 (Kimi) or from 0 (GLM): the one that has the entry 0 counts from there."""
    full, state = config.numbers("full_attn_layers") or [], config.numbers("kda_layers") or []
    first = 0 if 0 in full or 0 in state else 1
    known = {layer - first: "attention" for layer in full} | {layer - first: "kda" for layer in state}
    if sorted(known) != list(range(layers)):
        raise config.bad("kda_layers", f"{len(known)} layers", f"a list that covers {layers} layers")
    return [known[layer] for layer in range(layers)]


def _named(kind: str) -> str:
    if kind == "linear_attention":
        return "linear"
    if "attention" in kind:
        return "attention"
    return kind
