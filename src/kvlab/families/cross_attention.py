"""Text layers among layers that look only at an image: Llama 3.2 Vision (`cross_attention_layers`).

A layer of that list keeps keys and values of the image's tokens, and none of the text. An image of up to
`max_num_tiles` tiles has (image_size / patch_size)^2 + 1 tokens a tile (https://arxiv.org/abs/2407.21783, section 7).
"""

from __future__ import annotations

from kvlab.core.attention import full_row, heads, layer_count
from kvlab.core.config import Config
from kvlab.core.errors import MissingFact
from kvlab.core.family import Family
from kvlab.core.layout import Layout, Row

_KEY = "cross_attention_layers"


def _claims(config: Config) -> bool:
    return bool(config.peek(_KEY))


def _layout(config: Config) -> Layout:
    count, found = layer_count(config), heads(config)
    crossed = config.numbers(_KEY) or []
    if len(set(crossed)) != len(crossed) or not all(0 <= layer < count for layer in crossed):
        raise config.bad(_KEY, crossed, f"numbers of layers from 0 to {count - 1}")
    own = full_row([layer for layer in range(count) if layer not in crossed], found)
    image = Row(
        kind="cross",
        layers=tuple(sorted(crossed)),
        heads=found.kv,
        k_dim=found.k_dim,
        v_dim=found.v_dim,
        encoder=_image_tokens(config),
    )
    return Layout((own, image))


def _image_tokens(config: Config) -> int:
    """Tokens of one image of as many tiles as the model takes."""
    vision = config.beside("vision_config")
    if vision is None:
        raise MissingFact(f"{config.where}: there is no vision_config to tell how many tokens an image has")
    side = vision.need("image_size") // vision.need("patch_size")
    return (side * side + 1) * vision.need("max_num_tiles")


cross_attention = Family(name="cross_attention", claims=_claims, layout=_layout)
