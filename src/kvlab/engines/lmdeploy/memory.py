"""What LMDeploy keeps beside weights and blocks, before the share of the free memory is taken."""

from __future__ import annotations

from kvlab.core.engine import Deployment
from kvlab.core.taken import Taken
from kvlab.core.units import GIB, MIB, round_up
from kvlab.engines.lmdeploy.arguments import backend
from kvlab.engines.lmdeploy.models import is_sparse

PREFILL = 8192
"""max_prefill_token_num."""
# lmdeploy/utils.py, get_max_batch_size: by words in the device's name, 128 for all others.
_BATCH = (("h100", 1024), ("h800", 1024), ("h200", 1024), ("l20y", 1024), ("a100", 384), ("a800", 384))
_SLOTS_BESIDE = 2
"""Slots of the recurrent state beside one for each request: the system's own, and one to prefill into."""
_SPARSE_SCORES = 512 * MIB
"""LMDEPLOY_DSA_INDEXER_MAX_LOGITS_MB."""
_ALIGNED = 256


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
    scores = _SPARSE_SCORES if is_sparse(deployment.model) else 0
    size = (prefill + 2 * batch(deployment)) * vocab * 2 + scores
    because = f"logits of {prefill:,} prefill tokens and twice {batch(deployment):,} requests, {vocab:,} words"
    because += ", and 512 MiB for the indexer's scores" if scores else ""
    return (Taken(name="runtime_buffers", low=size, bytes=size, high=size, kind="computed", because=because),)


def slot_bytes(deployment: Deployment) -> int:
    """Recurrent state of one slot: 16 bits a value, and one tap more than a convolution looks back."""
    tp, size = deployment.ask.tp or 1, 0
    for row in deployment.layout.only("state"):
        for tensor in row.state:
            values = tensor.values if tensor.taps is None else tensor.values // tensor.taps * (tensor.taps + 1)
            size += round_up(len(row.layers) * values * 2 // tp, _ALIGNED)
    return size


def _state(deployment: Deployment) -> tuple[Taken, ...]:
    """Recurrent state: a slot for every request of a full batch, whatever the context."""
    slots = batch(deployment) + _SLOTS_BESIDE
    size = slot_bytes(deployment) * slots
    if not size:
        return ()
    because = f"recurrent state of {slots:,} slots (max_batch_size + 2) in 16 bits a value; --max-num-seqs lowers it"
    return (Taken(name="state_cache", low=size, bytes=size, high=size, kind="computed", because=because),)
