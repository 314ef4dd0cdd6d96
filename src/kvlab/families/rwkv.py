"""RWKV 4 to 7 from a config.json: no attention, two shifted tokens and one state in every layer.

Version 4 keeps a numerator, a denominator and a maximum per channel (https://arxiv.org/abs/2305.13048), versions 5 to 7
a matrix of head size x head size per head (https://arxiv.org/abs/2404.05892, https://arxiv.org/abs/2503.14456). States
are float32.
"""

from __future__ import annotations

from kvlab.core.attention import HIDDEN, layer_count
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, State

_WIDTH = "attention_hidden_size"
_SEVEN = ("decay_low_rank_dim",)
# How often activations are halved, and the widths of layers that keep nothing.
_UNSTORED = (
    *("rescale_every", "model_version", "time_mix_extra_dim", "time_decay_extra_dim"),
    *("a_low_rank_dim", "decay_low_rank_dim", "gate_low_rank_dim", "v_low_rank_dim", "attn_mode"),
)


def _claims(config: Config) -> bool:
    return config.has(_WIDTH, *_SEVEN) and config.has("rescale_every", *_SEVEN)


def _layout(config: Config) -> Layout:
    config.understood(*_UNSTORED)
    hidden, count = config.need(*HIDDEN), layer_count(config)
    width = config.maybe(_WIDTH) or hidden
    size = config.need("head_dim") if config.has(*_SEVEN) else config.maybe("head_size")
    if size is not None and width % size:
        raise config.bad("head_size", size, f"a divisor of the width {width:,}")
    values = config.numbers("value_dim")
    if values is not None and set(values) != {hidden}:
        raise config.bad("value_dim", values, f"the width {hidden:,} in every layer; wider values were not seen")
    state = State("wkv", 3 * width if size is None else width * size, dtype="float32")
    shift = State("shift", 2 * hidden, taps=2)
    return Layout((Row(kind="state", layers=tuple(range(count)), state=(shift, state)),))


rwkv = Family(name="rwkv", claims=_claims, layout=_layout)
