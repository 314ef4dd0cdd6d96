"""What one rank of SGLang loads, and what it holds beside weights and caches before it sizes its pools."""

from __future__ import annotations

from kvlab.core.budget import held_by_others
from kvlab.core.engine import Deployment
from kvlab.core.model import Model
from kvlab.core.sharding import Split, absorbed, left_out, share
from kvlab.core.taken import Taken
from kvlab.core.units import GIB, MIB
from kvlab.engines.sglang.drafts import draft_rows
from kvlab.engines.sglang.parallel import attention_ranks, stages_of
from kvlab.engines.sglang.versions import Release, release

_CONVERTED_HIGH = 1.05
"""Quantised matrices are repacked, and some padded, for their kernels."""
_MULTIMODAL_SINCE: Release = (0, 5, 18)  # a reserve for what multimodal models allocate after the pools


def rank_weights(deployment: Deployment) -> Taken:
    """The line "weights": the fullest rank's share of every tensor.

    DP attention copies what is split over attention heads to each group; experts stay split over all ranks.
    """
    weights, ask, model = deployment.weights, deployment.ask, deployment.model
    assert weights is not None
    tensors = (*weights.tensors, *absorbed(weights.tensors))
    found = share(tensors, _split(deployment, attention_ranks(ask)))
    least = share(tensors, _split(deployment, ask.tp or 1))
    known = weights.kind != "estimated"
    error = 0.0 if known else (weights.high or weights.bytes) / weights.bytes - 1
    spread = 1.0 if model.weight_format is None else _CONVERTED_HIGH
    exact = known and spread == 1 and least.low == found.high
    ranks = (ask.tp or 1) * ask.pp
    shared = f", split over {ranks} GPUs with copies of norms, routers and scarce KV heads" if ranks > 1 else ""
    return Taken(
        name="weights",
        low=round(least.low * (1 - error)),
        bytes=found.bytes,
        high=round(found.high * (1 + error) * spread),
        kind="computed" if exact else "estimated",
        because=f"{weights.because}{shared}{left_out(weights.tensors, _split(deployment, ask.tp or 1))}",
    )


def _split(deployment: Deployment, tp: int) -> Split:
    ask, model, layout = deployment.ask, deployment.model, deployment.layout
    return Split(
        tp=tp,
        experts=ask.tp or 1,
        stages=stages_of(model, layout, ask),
        layers=model.layers,
        heads=model.heads,
        kv_heads={
            layer: row.heads for row in layout.rows if row.kind in ("full", "window", "chunked") for layer in row.layers
        },
        drafts=bool(draft_rows(layout, ask)),
    )


def is_multimodal(model: Model) -> bool:
    """Whether the model takes images, audio or video, by its config or its architecture's name."""
    return model.vision is not None or any(name.endswith("ForConditionalGeneration") for name in model.architectures)


def overhead(deployment: Deployment) -> tuple[Taken, ...]:
    """What is held before the pools are sized. The share that SGLang leaves free is of what these lines leave.

    Activations and CUDA graphs are not among them: they live in the share that is left free.
    """
    ask, gpu = deployment.ask, deployment.gpu
    share_claimed = deployment.share or 1.0
    found = [
        _estimated(
            "context",
            (0.25, 0.6, 1.2),
            share_claimed,
            "CUDA context and libraries before the weights: public logs of 0.4.3 to 0.5.x state 0.4 GiB (L4) to 0.7 GiB"
            " (H100) less than the card has",
        )
    ]
    if (ask.tp or 1) * ask.pp > 1:
        found.append(
            _estimated(
                "communication",
                (0.1, 0.6, 2.0),
                share_claimed,
                'buffers between ranks; the line "Init torch distributed ends" states what they take: 0.13 GiB on four'
                " L4 without peer access, more with custom all-reduce",
            )
        )
    if is_multimodal(deployment.model) and release(ask) >= _MULTIMODAL_SINCE:
        found.append(
            Taken(
                name="multimodal",
                low=0,
                bytes=100 * MIB,
                high=1124 * MIB,
                kind="estimated",
                because="set aside for embeddings of images; 1 GiB more where their features travel over CUDA IPC",
            )
        )
    others = held_by_others(ask, gpu) if gpu is not None else 0
    if others and gpu is not None:
        left = round((gpu.usable_bytes - others) * (1 - share_claimed))
        stated = max(0, gpu.usable_bytes - round(gpu.usable_bytes * share_claimed) - others)
        found.append(
            Taken(
                name="left_beside_others",
                low=left - stated,
                bytes=left - stated,
                high=left - stated,
                kind="computed",
                because="SGLang leaves its share of what others left free, not of the whole GPU",
            )
        )
    return tuple(found)


def _estimated(name: str, gibibytes: tuple[float, float, float], share_claimed: float, because: str) -> Taken:
    low, guess, high = (round(amount * share_claimed * GIB) for amount in gibibytes)
    return Taken(name=name, low=low, bytes=guess, high=high, kind="estimated", because=because)
