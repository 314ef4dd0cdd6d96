"""RWKV 4 to 6 from a config.json: no attention, two shifted tokens and one state in every layer.

Version 4 keeps a numerator, a denominator and a maximum per channel (https://arxiv.org/abs/2305.13048), versions 5 and
6 a matrix of head size x head size per head (https://arxiv.org/abs/2404.05892). States are float32.
"""

from __future__ import annotations

from kvlab.core.attention import HIDDEN, layer_count
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, State

_WIDTH = "attention_hidden_size"
# How often activations are halved, and the widths of layers that keep nothing.
_UNSTORED = ("rescale_every", "model_version", "time_mix_extra_dim", "time_decay_extra_dim")


def _claims(config: Config) -> bool:
    return config.has(_WIDTH) and config.has("rescale_every")


def _layout(config: Config) -> Layout:
    config.understood(*_UNSTORED)
    hidden = config.need(*HIDDEN)
    width = config.maybe(_WIDTH) or hidden
    size = config.maybe("head_size")
    if size is not None and width % size:
        raise config.bad("head_size", size, f"a divisor of the width {width:,}")
    values = 3 * width if size is None else width * size
    shift = State("shift", 2 * hidden, taps=2)
    layers = tuple(range(layer_count(config)))
    return Layout((Row(kind="state", layers=layers, state=(shift, State("wkv", values, dtype="float32"))),))


rwkv = Family(name="rwkv", claims=_claims, layout=_layout)
