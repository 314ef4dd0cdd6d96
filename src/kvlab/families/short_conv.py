"""Short convolutions in most layers, attention in the others: LFM2. https://arxiv.org/abs/2511.23404"""

from __future__ import annotations

from kvlab.core.attention import HIDDEN, attention_rows, layer_count, layer_kinds, slides
from kvlab.core.config import Config
from kvlab.core.errors import MissingFact
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row, State


def _claims(config: Config) -> bool:
    return config.has("conv_L_cache")


def _layout(config: Config) -> Layout:
    count = layer_count(config)
    short = _convolutions(config, count)
    attention = [layer for layer in range(count) if layer not in short]
    width = config.maybe("conv_dim") or config.need(*HIDDEN)
    # The last L - 1 inputs of every channel.
    taps = config.need("conv_L_cache") - 1
    state = State("conv", width * taps, taps=taps)
    config.understood("conv_bias", "conv_dim_out", "conv_use_xavier_init")
    return Layout((Row(kind="state", layers=tuple(short), state=(state,)), *attention_rows(config, attention)))


def _convolutions(config: Config, count: int) -> list[int]:
    kinds = layer_kinds(config, count)
    if kinds is not None:
        config.understood("full_attn_idxs")
        for kind in set(kinds) - {"conv"}:
            slides(config, kind)
        return [layer for layer, kind in enumerate(kinds) if kind == "conv"]
    full = config.numbers("full_attn_idxs")
    if full is None:
        raise MissingFact(f"{config.where}: neither layer_types nor full_attn_idxs is set; add one to the config")
    return [layer for layer in range(count) if layer not in full]


short_conv = Family(name="short_conv", claims=_claims, layout=_layout)
