"""What LMDeploy keeps beside weights and blocks, before the share of the free memory is taken."""

from __future__ import annotations

from kvlab.core.engine import Deployment
from kvlab.core.taken import Taken
from kvlab.core.units import GIB
from kvlab.engines.lmdeploy.arguments import backend

PREFILL = 8192
"""max_prefill_token_num."""
# lmdeploy/utils.py, get_max_batch_size: by words in the device's name, 128 for all others.
_BATCH = (("h100", 1024), ("h800", 1024), ("h200", 1024), ("l20y", 1024), ("a100", 384), ("a800", 384))
_SLOTS_BESIDE = 2
"""Slots of the recurrent state beside one for each request: the system's own, and one to prefill into."""


def batch(deployment: Deployment) -> int:
    """max_batch_size: the asked one, else the device's default."""
    if deployment.ask.max_num_seqs is not None:
        return deployment.ask.max_num_seqs
    name = deployment.gpu.name if deployment.gpu else ""
    return next((size for word, size in _BATCH if word in name), 128)


def overhead(deployment: Deployment) -> tuple[Taken, ...]:
    """The terms, each on one rank. Source: lmdeploy/pytorch/engine/executor/base.py of 0.18.0."""
    pytorch = backend(deployment.model, deployment.ask) == "pytorch"
    context = Taken(
        name="context",
        low=GIB // 2,
        bytes=GIB if pytorch else 3 * GIB // 2,
        high=2 * GIB if pytorch else 3 * GIB,
        kind="estimated",
        because="CUDA context, communication buffers and workspaces; no public log states it: measure it or give"
        " --overhead-gib",
    )
    return (context, *_runtime(deployment), *_state(deployment)) if pytorch else (context,)


def _runtime(deployment: Deployment) -> tuple[Taken, ...]:
    """(max_prefill_token_num + 2 max_batch_size) x vocabulary x 2 bytes, which the PyTorch engine sets aside."""
    vocab = deployment.model.vocab
    if vocab is None:
        return ()
    prefill = deployment.ask.max_num_batched_tokens or PREFILL
    size = (prefill + 2 * batch(deployment)) * vocab * 2
    because = f"logits of {prefill:,} prefill tokens and twice {batch(deployment):,} requests, {vocab:,} words"
    return (Taken(name="runtime_buffers", low=size, bytes=size, high=size, kind="computed", because=because),)


def _state(deployment: Deployment) -> tuple[Taken, ...]:
    """Recurrent state: a slot for every request of a full batch, whatever the context."""
    rows, tp = list(deployment.layout.only("state")), deployment.ask.tp or 1
    if not rows:
        return ()
    slots = batch(deployment) + _SLOTS_BESIDE
    values = sum(len(row.layers) * tensor.values for row in rows for tensor in row.state) * slots // tp
    because = f"recurrent state of {slots:,} slots (max_batch_size + 2), 2 to 4 bytes a value; --max-num-seqs lowers it"
    return (
        Taken(name="state_cache", low=2 * values, bytes=2 * values, high=4 * values, kind="estimated", because=because),
    )
