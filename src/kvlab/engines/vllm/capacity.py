"""How vLLM carves a layout into blocks, and the two numbers that it prints.

Formulas: vllm/v1/core/kv_cache_utils.py and kv_cache_interface.py of 0.32.0; older releases where they differ.
"""

from __future__ import annotations

from typing import Literal

from kvlab.core.engine import Carved, Deployment, Planner
from kvlab.core.errors import BadInput, MissingFact
from kvlab.core.plan import Capacity, Expected, KvCost
from kvlab.core.taken import Taken
from kvlab.core.units import GIB, HALF_DIGIT
from kvlab.engines.vllm.carving import Carving, carving, sequence_bytes, token_bytes
from kvlab.engines.vllm.defaults import sequences, utilisation
from kvlab.engines.vllm.doubts import doubts
from kvlab.engines.vllm.moves import moves
from kvlab.engines.vllm.platform import runs_on

_ONE_NUMBER = (0, 20, 0)  # "KV cache size" became max_concurrency x max_model_len
_NULL_BLOCK = (0, 30, 0)  # the fit check sets one block aside


def carve(deployment: Deployment) -> Carved:
    """Blocks, tokens and concurrency of `deployment` in this release of vLLM.

    Raises MissingFact without a context, BadInput on what vLLM refuses: an unknown cache dtype, a context above the
    model's, heads that do not divide.
    """
    context = context_of(deployment)
    plan = carving(deployment, context)
    notes = doubts(deployment, plan)
    request = plan.request_bytes(context) if plan.groups else None
    kv = KvCost(plan.dtype, plan.token_bytes, request, context)
    capacity = None
    if deployment.pool_bytes is not None and plan.groups:
        capacity = _capacity(deployment, plan, deployment.pool_bytes)
    return Carved(
        kv=kv,
        capacity=capacity,
        context=context,
        expects=_expects(deployment, plan, capacity),
        doubts=notes,
    )


def context_of(deployment: Deployment) -> int:
    """The max model length: the asked one, else the model's own. Raises MissingFact or BadInput."""
    ask, native = deployment.ask, deployment.model.context
    if ask.context is None:
        if native is None:
            raise MissingFact("the config names no context length (max_position_embeddings); give --context")
        # A LongRoPE model is served at the length before stretching unless a longer one is asked for.
        return deployment.model.original_context or native
    if ask.context < 1:
        raise BadInput(f"--context {ask.context} must be at least 1 token")
    stretched = ask.arg("hf-overrides") or ask.arg("rope-scaling")
    if native is not None and ask.context > native and not stretched:
        raise BadInput(
            f"--context {ask.context:,} is above the model's {native:,} tokens; vLLM refuses it unless"
            " VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 is set, and quality beyond the trained length is not known"
        )
    return ask.context


def _capacity(deployment: Deployment, plan: Carving, pool: int) -> Capacity:
    blocks = plan.num_blocks(pool)
    concurrency = blocks / plan.request_blocks(plan.context)
    return Capacity(
        pool_bytes=pool,
        block_size=plan.block_size,
        num_blocks=blocks,
        tokens=_tokens(deployment, plan, blocks, concurrency),
        max_concurrency=concurrency,
        longest_request_tokens=min(_longest(plan, size, pool) for size in plan.stage_bytes),
    )


def _tokens(deployment: Deployment, plan: Carving, blocks: int, concurrency: float) -> int:
    """The number after "KV cache size:"."""
    if plan.release >= _ONE_NUMBER:
        return int(concurrency * plan.context)
    if plan.release >= (0, 11, 0):
        return blocks // len(plan.groups) * plan.block_size * deployment.ask.dcp
    return blocks * plan.block_size


def _longest(plan: Carving, block_bytes: int, pool: int) -> int:
    """The longest request that passes the fit check of one rank, by vLLM's own binary search up to the context."""
    usable = pool if plan.override is None else plan.override * block_bytes
    usable -= block_bytes if plan.release >= _NULL_BLOCK else 0
    low, high = 0, plan.context
    while low < high:
        middle = (low + high + 1) // 2
        fits = block_bytes * plan.request_blocks(middle) <= usable
        low, high = (middle, high) if fits else (low, middle - 1)
    return low


def _expects(deployment: Deployment, plan: Carving, capacity: Capacity | None) -> tuple[Expected, ...]:
    if capacity is None:
        return ()
    given = deployment.ask.pool_gib is not None
    kind: Literal["computed", "estimated"] = "computed" if given else "estimated"
    printed = "the log prints it with two decimals"
    pool = Expected(
        name="kv_pool_bytes",
        value=capacity.pool_bytes,
        unit="bytes",
        kind=kind,
        tolerance=HALF_DIGIT * GIB,
        because="the pool is as given" if given else "the pool is what the ledger leaves",
    )
    tokens = Expected(
        name="kv_tokens",
        value=capacity.tokens,
        unit="tokens",
        kind=kind,
        tolerance=0.5,
        because=f"{capacity.num_blocks:,} blocks of {capacity.block_size} tokens fit in the pool",
    )
    concurrency = Expected(
        name="max_concurrency",
        value=capacity.max_concurrency,
        unit="requests",
        kind=kind,
        tolerance=HALF_DIGIT + 1e-9 * capacity.max_concurrency,
        because=f"{capacity.num_blocks:,} blocks over the blocks of one request; {printed}",
    )
    blocks = Expected(
        name="num_gpu_blocks",
        value=capacity.num_blocks,
        unit="blocks",
        kind=kind,
        tolerance=0.5,
        because="the pool over the bytes of one block",
    )
    rows = (pool, tokens, concurrency, blocks, _dtype(deployment, plan))
    return rows if capacity.longest_request_tokens >= plan.context else (*rows, *_refusal(plan, capacity))


def _dtype(deployment: Deployment, plan: Carving) -> Expected:
    """The cache dtype as the start-up dump of the configuration has it: the flag's word, or what vLLM made of it."""
    asked = deployment.ask.kv_dtype or "auto"
    same = {"fp8", "fp8_e4m3"} if plan.dtype in ("fp8", "fp8_e4m3") else set()
    return Expected(
        name="kv_cache_dtype",
        value=plan.dtype,
        unit="word",
        kind="computed",
        tolerance=0,
        because=f"--kv-cache-dtype {asked} is {plan.dtype} for this model",
        also=tuple(sorted({asked, *same} - {plan.dtype})),
    )


def _refusal(plan: Carving, capacity: Capacity) -> tuple[Expected, ...]:
    """What vLLM states when it refuses to start because one request does not fit: the first rank that fails speaks."""
    limits = [(size, _longest(plan, size, capacity.pool_bytes)) for size in plan.stage_bytes]
    block_bytes, longest = next((size, tokens) for size, tokens in limits if tokens < plan.context)
    blocks = plan.request_blocks(plan.context)
    request = Expected(
        name="request_bytes",
        value=blocks * block_bytes,
        unit="bytes",
        kind="computed",
        tolerance=HALF_DIGIT * GIB,
        because=f"{blocks:,} blocks hold one request of {plan.context:,} tokens",
    )
    estimate = Expected(
        name="longest_request_tokens",
        value=longest,
        unit="tokens",
        kind="computed",
        tolerance=0.5,
        because="a longer request needs more blocks than the pool has",
    )
    return request, estimate


def _overhead(deployment: Deployment) -> tuple[Taken, ...]:
    # Imported only for a plan with a GPU: the patterns of tensor names cost a plan without one a millisecond.
    from kvlab.engines.vllm.overhead import overhead

    return overhead(deployment)


def _rank_weights(deployment: Deployment) -> Taken:
    from kvlab.engines.vllm.weights import rank_weights

    return rank_weights(deployment)


PLANNER = Planner(
    dtypes=("bfloat16", "fp8", "int4_per_token_head"),
    default_util=utilisation,
    carve=carve,
    moves=moves,
    runs_on=runs_on,
    most_requests=sequences,
    options=frozenset(
        {
            *("tp", "pp", "dp", "dcp", "ep", "util", "block_size", "max_num_batched_tokens", "max_num_seqs"),
            *("prefix_caching", "mamba_cache_mode"),
        }
    ),
    token_bytes=token_bytes,
    sequence_bytes=sequence_bytes,
    overhead=_overhead,
    rank_weights=_rank_weights,
)
