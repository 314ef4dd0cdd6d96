"""What one rank of vLLM loads of a checkpoint."""

from __future__ import annotations

from kvlab.core.engine import Deployment
from kvlab.core.model import Model, Tensor
from kvlab.core.plan import Ask
from kvlab.core.sharding import Split, absorbed, is_expert, left_out, share
from kvlab.core.taken import Taken
from kvlab.core.units import round_up
from kvlab.engines.vllm.drafts import FLAG
from kvlab.engines.vllm.groups import stages
from kvlab.engines.vllm.platform import switched_on

_TILE = 256
_COUNTED = 0.01
"""Share by which a count of parameters may be too high; towers that were not counted only add."""
_CONVERTED_HIGH = 1.02
"""Quantised matrices are repacked for their kernels, with scales in the kernel's own form."""


def rank_weights(deployment: Deployment) -> Taken:
    """The line "weights": the fullest rank's share of every tensor, with the layers that only draft left out."""
    weights, ask, model = deployment.weights, deployment.ask, deployment.model
    assert weights is not None
    drafts = ask.arg(FLAG) is not None
    tp = ask.tp or 1
    split = Split(
        tp=tp,
        experts=tp * ask.dp,  # data-parallel ranks share the experts, with expert parallelism or without
        stages=stages(model.layers, ask.pp),
        layers=model.layers,
        heads=model.heads,
        kv_heads={
            layer: row.heads
            for row in deployment.layout.rows
            if row.kind in ("full", "window", "chunked", "cross")
            for layer in row.layers
        },
        drafts=drafts,
    )
    found = share((*weights.tensors, *absorbed(weights.tensors)), split)
    padded = _padding(deployment, weights.tensors)
    spread, kept = _spread(model.weight_format), _kept(model, ask)
    known = weights.kind != "estimated"
    more = 0.0 if known else max(0.0, (weights.high or weights.bytes) / max(1, weights.bytes) - 1)
    ranks = tp * ask.pp
    shared = f", split over {ranks} GPUs with copies of norms, routers and scarce KV heads" if ranks > 1 else ""
    halved = "; loaded in 16 bits a value (--dtype auto)" if kept != 1 else ""
    return Taken(
        name="weights",
        low=round(found.low * kept * (1 - min(more, _COUNTED))),
        bytes=round(found.bytes * kept) + padded[0],
        high=round(found.high * kept * (1 + more) * spread) + padded[1],
        kind="computed" if known and spread == kept == 1 and not padded[1] and found.low == found.high else "estimated",
        because=f"{weights.because}{shared}{left_out(weights.tensors, split)}{halved}",
    )


def _padding(deployment: Deployment, tensors: tuple[Tensor, ...]) -> tuple[int, int]:
    """Bytes on one rank by which MXFP4 experts grow: their width padded to the kernel's tiles, and the hidden size too.

    Which of the two a kernel pads, and to what, is known from logs only: 6.7 % more in gpt-oss-20b, whose width goes
    from 2,880 to 3,072; 9 % in gpt-oss-120b on Marlin.
    """
    model, ask = deployment.model, deployment.ask
    width, tp = model.expert_ffn or model.ffn, ask.tp or 1
    stored = [tensor for tensor in tensors if is_expert(tensor.name)]
    experts = sum(tensor.bytes for tensor in stored if model.weight_format == "mxfp4" or _is_mxfp4(tensor))
    if not experts or width is None:
        return 0, 0
    whole = ask.ep > 1 or switched_on(ask.arg("enable-expert-parallel"))
    own = width if whole else max(1, width // tp)
    wider = round_up(own, _TILE) / own
    longer = round_up(model.hidden, _TILE) / model.hidden if model.hidden else 1.0
    held = experts / (tp * ask.dp * ask.pp)
    return round(held * (wider - 1)), round(held * (wider * longer - 1))


def _is_mxfp4(tensor: Tensor) -> bool:
    """Whether the bytes are those of 4-bit values with an 8-bit scale for each 32."""
    values = tensor.rows * tensor.columns * tensor.copies
    return values > 0 and 4.2 < 8 * tensor.bytes / values < 4.3


def _kept(model: Model, ask: Ask) -> float:
    """The share of a plain float32 checkpoint that is loaded: `--dtype auto` makes 16-bit values of it."""
    plain = model.dtype == "float32" and model.weight_format is None
    return 0.5 if plain and ask.arg("dtype") not in ("float32", "float") else 1.0


def _spread(weight_format: str | None) -> float:
    if weight_format is None:
        return 1.0
    return _CONVERTED_HIGH
