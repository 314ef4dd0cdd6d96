"""How long a context Ollama serves, how many requests together, and in what micro-batches.

Sources: server/routes.go (tiers), server/sched.go and its llama-server load plan (batches) of 0.30 to 0.33.
"""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Deployment
from kvlab.core.errors import BadInput, MissingFact, shortened
from kvlab.core.model import Doubt, Model
from kvlab.core.units import GIB, MIB, gib
from kvlab.engines.ollama.versions import CHILD, CONTEXT_TIERS, OLDEST_DEFAULT, release

_TIERS = ((47 * GIB, 262_144), (23 * GIB, 32_768), (0, 4_096))
"""Memory of all GPUs, and the context that it gets by default."""
_BEFORE_TIERS = 4_096
# Architectures that run one request at a time whatever OLLAMA_NUM_PARALLEL says, without underscores.
_ALONE = ("mllama", "qwen3vl", "qwen35", "qwen3next", "lfm2", "nemotronh")
# Tokens of a micro-batch, for contexts above so many tokens; what it costs, and the share of the memory that weights
# and caches may take at most for it to be chosen.
_BATCHES = ((32_768, 2048, 2 * GIB, 0.60), (4_096, 1024, 768 * MIB, 0.75), (0, 512, 0, 1.0))
_HEADROOM = 0.80
_DIGITS = 15
"""Of a number of bytes: less than a thousand terabytes."""
_KEPT = 4
"""num_keep: tokens at the start of a prompt that are never cut."""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """What one request may hold, and how many run together."""

    num_ctx: int
    slots: int
    doubts: tuple[Doubt, ...] = ()


def served(deployment: Deployment) -> Served:
    """The asked context and users, else Ollama's defaults; a context above the model's is cut, not refused.

    Raises BadInput for parallel requests where Ollama runs one at a time, MissingFact for an unknown default.
    """
    ask, native = deployment.ask, deployment.model.context
    slots, doubts = _slots(deployment), []
    num_ctx = ask.context
    if num_ctx is None:
        num_ctx = default_context(deployment)
        known = "this GPU" if deployment.gpu is not None else "a machine without a GPU"
        if native is None or native > num_ctx:
            doubts.append(
                Doubt(
                    "num_ctx",
                    f"{num_ctx:,} tokens are Ollama's default for {known}, and it cuts a longer prompt"
                    f"{_cut_to(deployment, num_ctx)} without an error: give --context",
                )
            )
    elif native is not None and num_ctx > native:
        text = f"Ollama cuts {num_ctx:,} tokens to the {native:,} that the model was made for, and says so only in its"
        doubts.append(Doubt("num_ctx", f"{text} log"))
    return Served(num_ctx=min(num_ctx, native or num_ctx), slots=slots, doubts=tuple(doubts))


def _cut_to(deployment: Deployment, num_ctx: int) -> str:
    """Since 0.30 a prompt that is too long keeps its first tokens and half of the rest of the context."""
    return f" to {cut_prompt(num_ctx):,} tokens" if release(deployment.ask) >= CHILD else " to them"


def cut_prompt(num_ctx: int) -> int:
    """Tokens that are left of a prompt which does not fit (llm/llama_server.go of 0.30 on)."""
    return num_ctx - max((num_ctx - _KEPT) // 2, 1)


def _slots(deployment: Deployment) -> int:
    ask = deployment.ask
    if not runs_alone(deployment.model):
        return ask.parallel or ask.users or 1
    if ask.parallel is not None and ask.parallel > 1:
        raise BadInput(
            f"Ollama runs {deployment.model.model_type} one request at a time, whatever OLLAMA_NUM_PARALLEL says; leave"
            " out --parallel"
        )
    return 1


def runs_alone(model: Model) -> bool:
    """Whether Ollama never runs requests to this architecture in parallel."""
    return model.model_type.replace("_", "").replace("-", "").startswith(_ALONE)


def default_context(deployment: Deployment) -> int:
    """num_ctx when nobody names one. Raises MissingFact for a release whose default is not known here."""
    ask, gpu = deployment.ask, deployment.gpu
    if release(ask) < OLDEST_DEFAULT:
        raise MissingFact(f"the default context of Ollama {ask.engine_version} is not known here; give --context")
    if release(ask) < CONTEXT_TIERS:
        return _BEFORE_TIERS
    kept_free = ask.arg("OLLAMA_GPU_OVERHEAD") or "0"
    if not kept_free.isdecimal() or len(kept_free) > _DIGITS:
        raise BadInput(f"--engine-arg OLLAMA_GPU_OVERHEAD={shortened(kept_free)} must be a number of bytes")
    memory = gpu.usable_bytes - int(kept_free) if gpu is not None else 0
    if memory < 0 and gpu is not None:
        raise BadInput(
            f"--engine-arg OLLAMA_GPU_OVERHEAD={kept_free} keeps free more than the GPU's {gib(gpu.usable_bytes)};"
            " lower it"
        )
    return next(context for at_least, context in _TIERS if memory >= at_least)


def micro_batch(deployment: Deployment, n_ctx: int, cache: int) -> int:
    """num_batch: the asked one, else by context, and smaller where weights and caches leave too little memory."""
    ask, gpu, weights = deployment.ask, deployment.gpu, deployment.weights
    if ask.ubatch is not None:
        return ask.ubatch
    if release(ask) < CHILD:
        return _BATCHES[-1][1]
    taken = weights.bytes + cache if weights is not None else 0
    room = gpu.usable_bytes if gpu is not None and weights is not None else 0
    for above, tokens, cost, share in _BATCHES:
        fits = not room or (taken <= share * room and taken + cost <= _HEADROOM * room)
        if n_ctx > above and (fits or not above):
            return tokens
    return _BATCHES[-1][1]
