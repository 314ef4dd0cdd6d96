"""An encoder that is run once and a decoder that looks at its output in every layer: Whisper.

A decoder layer keeps keys and values of the answer's tokens, and those of all `max_source_positions` encoder tokens
(https://arxiv.org/abs/2212.04356: 30 s of sound are 1,500 of them). The encoder itself keeps nothing.
"""

from __future__ import annotations

from kvlab.core.attention import HIDDEN
from kvlab.core.config import Config
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row

_LAYERS, _HEADS = "decoder_layers", "decoder_attention_heads"
# Sizes of the encoder, which keeps no cache.
_ENCODER = ("encoder_layers", "encoder_attention_heads", "encoder_ffn_dim", "num_hidden_layers")


def _claims(config: Config) -> bool:
    return config.has(_LAYERS, _HEADS) and config.has("max_source_positions")


def _layout(config: Config) -> Layout:
    config.understood("is_encoder_decoder", *_ENCODER)
    layers, heads = tuple(range(config.need(_LAYERS))), config.need(_HEADS)
    width = config.need(*HIDDEN)
    if width % heads:
        raise config.bad(_HEADS, heads, f"a divisor of the width {width:,}")
    size = width // heads
    own = Row(kind="full", layers=layers, heads=heads, k_dim=size, v_dim=size)
    sound = Row(
        kind="cross", layers=layers, heads=heads, k_dim=size, v_dim=size, encoder=config.need("max_source_positions")
    )
    return Layout((own, sound))


encoder_decoder = Family(name="encoder_decoder", claims=_claims, layout=_layout)
