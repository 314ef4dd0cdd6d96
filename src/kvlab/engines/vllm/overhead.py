"""What vLLM takes of a GPU beside weights and cache: a term each for what the profiling run leaves and peaks at.

available = memory x utilisation - weights - non-torch - peak of the profiling run [- CUDA graphs since 0.20]
(vllm/v1/worker/gpu_worker.py). The terms' shapes follow from what the run does; their constants are fitted on the
public logs of tests/golden/receipts, whose leave-one-out error benchmarks/overhead.py prints.
"""

from __future__ import annotations

from math import log2

import msgspec

from kvlab.core.engine import Deployment
from kvlab.core.model import Model
from kvlab.core.sharding import is_tower
from kvlab.core.taken import Taken
from kvlab.core.units import GIB, MIB, gib
from kvlab.engines.vllm.defaults import batched_tokens, graph_sizes, graphs_counted, sequences
from kvlab.engines.vllm.platform import on_cpu, switched_on
from kvlab.engines.vllm.versions import release

_SORTED = (0, 17, 0)  # until then top-p sorted a copy of all logits
_ALL_SIZES = 51  # capture sizes up to 512 tokens
_HALF = 2
_INDEXED = 40 * 132 + 5 * 1152
"""Bytes a token of context: the indexer's prefill buffer and the workspace of sparse latent attention."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """Constants that only logs tell."""

    sorted_bytes: float = 37.7
    """Bytes of each logit while the sampler sorts: 16- and 32-bit logits, sorted copies, indices, probabilities."""
    sampler_bytes: float = 15.0
    """The same with the sampler that does not sort."""
    workspace: float = 0.103
    """GiB of buffers for each 8,192 batched tokens."""
    context: float = 0.16
    """GiB of CUDA context and libraries on one GPU."""
    network: float = 0.44
    """GiB of communication buffers for each doubling of the ranks."""
    graph: float = 19.8
    """MiB of CUDA graphs for each layer, all sizes captured."""


FIT = Fit()
# As shares of the guess: what the terms of the fitted logs span.
_CONTEXT_RANGE, _GRAPH_RANGE = (0.5, 2.0), (0.0, 2.0)
_PEAK_LOW, _PEAK_HIGH, _PEAK_HIGH_EXPERTS = 0.6, 1.3, 1.8
_ENCODER = (0, GIB // 2, 2 * GIB)


def overhead(deployment: Deployment, fit: Fit = FIT) -> tuple[Taken, ...]:
    """The terms on one rank; a single guess on CPUs and for models whose widths are not known."""
    model = deployment.model
    if on_cpu(deployment.gpu) or model.hidden is None or model.vocab is None:
        return (_unknown(),)
    found = [_non_torch(deployment, fit), _activations(deployment, fit)]
    graphs = _graphs(deployment, fit)
    found += [graphs] if graphs is not None else []
    if _encodes(deployment):
        found.append(_encoder())
    return tuple(found)


def _unknown() -> Taken:
    because = "activations, libraries and graphs of a model of unknown widths; public logs state 0.4 to 9.7 GiB"
    return Taken(name="overhead", low=GIB // 2, bytes=5 * GIB // 2, high=7 * GIB, kind="estimated", because=because)


def _non_torch(deployment: Deployment, fit: Fit) -> Taken:
    tp = deployment.ask.tp or 1
    guess = GIB * (fit.context + fit.network * log2(tp))
    network = f" and communication buffers of {tp} ranks" if tp > 1 else ""
    return _term("non_torch", guess, _CONTEXT_RANGE, f"CUDA context, libraries{network}")


def _activations(deployment: Deployment, fit: Fit) -> Taken:
    """The peak of the profiling run: the widest layer's forward pass, or the sampler, whichever is larger."""
    model, ask, gpu = deployment.model, deployment.ask, deployment.gpu
    context = _context(deployment)
    batched = batched_tokens(ask, deployment.layout, gpu, context)
    rows, vocab = min(batched, sequences(ask, gpu)), model.vocab or 0
    forward = batched * _token_bytes(model, ask.tp or 1)
    sampler = rows * vocab * (fit.sorted_bytes if release(ask) < _SORTED else fit.sampler_bytes)
    peak = max(forward, sampler) + fit.workspace * GIB * batched / 8192
    indexed = any(deployment.layout.only("indexer")) and any(deployment.layout.only("latent"))
    peak += context * _INDEXED if indexed else 0
    high = _PEAK_HIGH_EXPERTS if model.experts_per_token else _PEAK_HIGH
    what = (
        f"the sampler's {rows:,} rows of {vocab:,} logits"
        if sampler > forward
        else f"the forward pass of {batched:,} tokens"
    )
    return _term("activations", peak, (_PEAK_LOW, high), f"peak of the profiling run: {what}, and its buffers")


def _context(deployment: Deployment) -> int:
    """Tokens of the longest request. One that nothing states counts as 1: such a plan is refused when it is carved."""
    model = deployment.model
    return deployment.ask.context or model.original_context or model.context or 1


def _token_bytes(model: Model, tp: int) -> int:
    """Bytes of one token in the widest layer: its streams, and what the MLP or the experts hold of it at once."""
    hidden = model.hidden or 0
    # Gate, up and their product. A config without a width of its MLP means GPT's, four times the hidden size.
    dense = 3 * (model.ffn or 4 * hidden) // tp
    width = model.expert_ffn or model.ffn
    visited = model.experts_per_token
    if not visited or not width:
        return _HALF * (dense + 3 * hidden)
    routed = visited * (max(2 * width // tp, hidden) + width // tp)
    return _HALF * (max(dense if model.expert_ffn else 0, routed) + 3 * hidden)


def _graphs(deployment: Deployment, fit: Fit) -> Taken | None:
    """CUDA graphs, in the releases that take them out of the pool; earlier ones find room beside it."""
    ask, gpu, model = deployment.ask, deployment.gpu, deployment.model
    context = _context(deployment)
    sizes = graph_sizes(ask, gpu, batched_tokens(ask, deployment.layout, gpu, context))
    if not sizes or not graphs_counted(ask):
        return None
    guess = fit.graph * MIB * model.layers / ask.pp * sizes / _ALL_SIZES
    return _term("cuda_graphs", guess, _GRAPH_RANGE, f"graphs of {sizes} batch sizes, {model.layers} layers")


def _encodes(deployment: Deployment) -> bool:
    tensors = deployment.weights.tensors if deployment.weights is not None else ()
    alone = switched_on(deployment.ask.arg("language-model-only"))
    return not alone and any(is_tower(tensor.name) for tensor in tensors)


def _encoder() -> Taken:
    low, guess, high = _ENCODER
    because = "the profiling run of the vision or audio tower; --engine-arg language-model-only=true leaves it out"
    return Taken(name="encoder", low=low, bytes=guess, high=high, kind="estimated", because=because)


def _term(name: str, guess: float, spread: tuple[float, float], because: str) -> Taken:
    low, high = guess * spread[0], guess * spread[1]
    text = f"{because}; about {gib(guess)} by public logs"
    return Taken(name=name, low=round(low), bytes=round(guess), high=round(high), kind="estimated", because=text)
