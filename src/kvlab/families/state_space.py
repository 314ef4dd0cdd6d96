"""State-space layers, alone or among attention layers: Mamba 1 and 2, Nemotron-H, Jamba, Bamba, Granite 4, Falcon-H1.

A Mamba layer keeps the last `kernel - 1` inputs of its convolution and one state of d_state values per channel.
https://arxiv.org/abs/2312.00752, https://arxiv.org/abs/2405.21060
"""

from __future__ import annotations

import msgspec

from kvlab.core.attention import HEADS, HIDDEN, attention_rows, layer_count
from kvlab.core.config import LAYER_KEYS, Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, State

_STATE = ("ssm_state_size", "mamba_d_state")
_LETTERS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}
_STATELESS = ("mlp", "moe")
# Widths and modes of the layer that leave the size of its state alone.
_UNSTORED = (
    "mamba_hidden_act",
    "mamba_proj_bias",
    "mamba_conv_bias",
    "mamba_dt_rank",
    "mamba_rms_norm",
    "mamba_norm_before_gate",
    "mamba_use_mlp",
    "mamba_chunk_size",
    "use_mamba_kernels",
    "use_conv_bias",
    "mamba_inner_layernorms",
    "time_step_rank",
    "ssm_in_multiplier",
    "ssm_out_multiplier",
    "ssm_multipliers",
)


def _claims(config: Config) -> bool:
    return config.has(*_STATE) or (config.has("state_size", "d_state") and config.has("conv_kernel", "d_conv"))


def _layout(config: Config) -> Layout:
    config.understood(*_UNSTORED)
    kinds = _kinds(config)
    both = kinds is None and config.has("mamba_d_ssm", "mamba_n_heads") and config.has(*HEADS)
    if kinds is None:
        # Falcon-H1 runs attention and a state in every layer; plain Mamba has no attention heads.
        if not both and config.has(*HEADS) and config.has(*_STATE):
            raise UnknownModel(
                f"{config.where}: model_type {config.peek('model_type')!r} mixes state-space and attention layers and"
                " no key says which is which; keys not understood: mamba_d_state"
            )
        kinds = ["mamba"] * layer_count(config)
    recurrent = tuple(layer for layer, kind in enumerate(kinds) if kind == "mamba")
    attention = recurrent if both else tuple(layer for layer, kind in enumerate(kinds) if kind == "attention")
    rows = [Row(kind="state", layers=recurrent, state=_state(config))] if recurrent else []
    found = attention_rows(config, attention)
    return Layout((*rows, *found), draft=_drafts(config, len(kinds), found))


def _drafts(config: Config, trunk: int, rows: list[Row]) -> tuple[Row, ...]:
    """Attention layers among the draft layers, which Nemotron-H spells as it does those of its trunk."""
    pattern = config.text("mtp_hybrid_override_pattern")
    listed = list(pattern) if pattern is not None else config.items("mtp_layers_block_type") or []
    kinds = [_LETTERS.get(str(kind), str(kind)) for kind in listed]
    kinds *= config.maybe("num_nextn_predict_layers", least=0) or 0
    layers = tuple(trunk + layer for layer, kind in enumerate(kinds) if kind == "attention")
    known = len(rows) == 1 and set(kinds) <= {"attention", *_STATELESS}
    return (msgspec.structs.replace(rows[0], layers=layers),) if known and layers else ()


def _kinds(config: Config) -> list[str] | None:
    """The kind of each layer; None when the config does not tell layers apart."""
    pattern = config.text("hybrid_override_pattern")
    if pattern is not None:
        if config.has(*LAYER_KEYS) and layer_count(config) != len(pattern):
            raise config.bad("hybrid_override_pattern", f"{len(pattern)} letters", f"{layer_count(config)} letters")
        return [_kind(config, _LETTERS.get(letter, letter)) for letter in pattern]
    listed = config.items("layers_block_type", "layer_types")
    if listed is not None:
        if config.has(*LAYER_KEYS) and layer_count(config) != len(listed):
            raise config.bad("layers_block_type", f"a list of {len(listed)}", f"a list of {layer_count(config)}")
        return [_kind(config, str(kind)) for kind in listed]
    chosen = config.numbers("attn_layer_indices")
    if chosen is not None:
        return ["attention" if layer in chosen else "mamba" for layer in range(layer_count(config))]
    period = config.maybe("attn_layer_period")
    if period is not None:
        offset = config.need("attn_layer_offset", least=0)
        return ["attention" if layer % period == offset else "mamba" for layer in range(layer_count(config))]
    return None


def _kind(config: Config, kind: str) -> str:
    kind = {"full_attention": "attention", "linear_attention": "mamba"}.get(kind, kind)
    if kind not in ("mamba", "attention", *_STATELESS):
        raise UnknownModel(
            f"{config.where}: a layer of kind {kind[:40]!r} among state-space layers (model_type"
            f" {config.peek('model_type')!r}) is not known; its cache cannot be planned"
        )
    return kind


def _state(config: Config) -> tuple[State, State]:
    size = config.need(*_STATE, "state_size", "d_state")
    kernel = config.need("conv_kernel", "mamba_d_conv", "d_conv")
    dtype = config.text("mamba_ssm_cache_dtype", "mamba_ssm_dtype")
    # Mamba 2 has heads that share a scalar decay, Mamba 1 only channels.
    second = config.has("mamba_num_heads", "mamba_n_heads") or config.peek("model_type") == "mamba2"
    if not second:
        inner = _inner(config)
        return State("conv", inner * (kernel - 1), taps=kernel - 1), State("ssm", inner * size, dtype)
    inner = _heads_times_size(config)
    groups = config.need("n_groups", "mamba_n_groups", "mamba_num_groups")
    taps = kernel - 1
    conv = State("conv", (inner + 2 * groups * size) * taps, None, taps, groups, 2 * size * taps)
    return conv, State("ssm", inner * size, dtype)


def _inner(config: Config) -> int:
    """Channels of the state: stated, or hidden size times the expansion."""
    stated = config.maybe("mamba_d_ssm", "d_inner")
    expand = config.maybe("mamba_expand", "expand")
    if stated is None and not config.has(*_STATE):
        # Plain Mamba states its channels as intermediate_size, which wins over expand (Falcon-Mamba: not 65,536).
        stated = config.maybe("intermediate_size")
    return stated or config.need(*HIDDEN) * (expand or config.need("mamba_expand"))


def _heads_times_size(config: Config) -> int:
    heads = config.need("mamba_num_heads", "mamba_n_heads", "num_heads")
    if config.peek("mamba_d_head") == "auto":
        config.understood("mamba_d_head")
        return _inner(config)
    size = config.need("mamba_head_dim", "mamba_d_head", "head_dim")
    config.understood("expand", "mamba_expand", "mamba_d_ssm")
    return heads * size


state_space = Family(name="state_space", claims=_claims, layout=_layout)
