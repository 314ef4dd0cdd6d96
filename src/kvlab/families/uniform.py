"""Every layer keeps every token: MHA, GQA and MQA. The general family: the others claim what it leaves unread."""

from __future__ import annotations

from kvlab.core.attention import drafts, full_row, heads, layer_count, layer_kinds, slides, window_size
from kvlab.core.config import LAYER_KEYS, Config
from kvlab.core.errors import UnknownModel
from kvlab.core.family import Family
from kvlab.core.layout import Layout


def _claims(config: Config) -> bool:
    return config.has(*LAYER_KEYS)


def _layout(config: Config) -> Layout:
    count = layer_count(config)
    for kind in layer_kinds(config, count) or ():
        if slides(config, kind):
            raise UnknownModel(f"{config.where}: {config.path}layer_types has sliding layers but no sliding_window")
    if window_size(config):
        raise UnknownModel(f"{config.where}: {config.path}sliding_window is set; not every layer keeps every token")
    # MiniMax-M2 lists its layers in the words of MiniMax-01: 1 is softmax attention.
    if set(config.numbers("attn_type_list") or ()) - {1}:
        raise UnknownModel(f"{config.where}: {config.path}attn_type_list names layers without softmax attention")
    if config.flag("use_cla") is False:
        # Hunyuan states how many layers would share a cache, and switches sharing off.
        config.understood("cla_share_factor")
    trunk = full_row(range(count), heads(config))
    return Layout((trunk,), draft=drafts(config, trunk))


uniform = Family(name="uniform", claims=_claims, layout=_layout)
