"""What Gemma 3n and Gemma 4 hold beside plain layers: per-layer inputs, AltUp, a dense MLP next to experts."""

from __future__ import annotations

from kvlab.source import count_mlp
from kvlab.source.count_attention import Shape
from kvlab.source.count_parts import Part, linear, norm


def once(shape: Shape) -> list[Part]:
    """Parts that the model holds once: the table of per-layer inputs, and AltUp's projections (Gemma 3n)."""
    config, hidden = shape.config, shape.hidden
    size = config.maybe("hidden_size_per_layer_input", least=0)
    parts: list[Part] = []
    if size:
        stated = config.peek("vocab_size_per_layer_input")
        table = config.need("vocab_size") if stated is None else config.number(stated, "vocab_size")
        parts.append(Part("model.embed_tokens_per_layer", table, shape.layers * size, embedding=True))
        parts += linear("model.per_layer_model_projection", shape.layers * size, hidden)
        parts += norm("model.per_layer_projection_norm", size)
    streams = config.maybe("altup_num_inputs")
    if streams:
        parts.append(Part("model.altup_projections", hidden, hidden, 2 * (streams - 1), plain=False))
    return parts


def extras(shape: Shape, at: str) -> list[Part]:
    """Parts of every layer: the gate and projection of its input, AltUp's routers and Laurel (Gemma 3n)."""
    config, hidden = shape.config, shape.hidden
    size = config.maybe("hidden_size_per_layer_input", least=0)
    parts: list[Part] = []
    if size:
        parts += linear(f"{at}.per_layer_input_gate", size, hidden)
        parts += linear(f"{at}.per_layer_projection", hidden, size)
        parts += norm(f"{at}.post_per_layer_input_norm", hidden)
    streams = config.maybe("altup_num_inputs")
    if streams:
        rank = config.need("laurel_rank")
        parts += linear(f"{at}.laurel.linear_left", rank, hidden) + linear(f"{at}.laurel.linear_right", hidden, rank)
        parts += norm(f"{at}.laurel.post_laurel_norm", hidden)
        parts += [Part(f"{at}.altup.modality_router", streams, hidden), Part(f"{at}.altup.router_norm", hidden)]
        parts.append(Part(f"{at}.altup.coefs", streams * streams * (streams + 1) + hidden))
    return parts


def feed(shape: Shape, layer: int, at: str) -> list[Part]:
    """Gemma 4: the dense MLP stays beside the experts, each side with norms of its own."""
    config, hidden = shape.config, shape.hidden
    parts = [*extras(shape, at), Part(f"{at}.layer_scalar", 1)]
    parts += count_mlp.mlp(shape, f"{at}.mlp", count_mlp.width(shape, layer))
    if not config.flag("enable_moe_block"):
        return parts
    count = count_mlp.experts_of(config) or 0
    return [
        *parts,
        *count_mlp.experts(shape, at),
        Part(f"{at}.experts_norms", 3 * hidden),
        Part(f"{at}.router.scale", hidden + count),
    ]
