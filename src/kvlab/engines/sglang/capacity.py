"""What SGLang's pools hold: tokens, recurrent states, requests; and the lines of its log that say so."""

from __future__ import annotations

from kvlab.core.engine import Carved, Deployment, Planner
from kvlab.core.errors import BadInput, MissingFact
from kvlab.core.layout import Layout
from kvlab.core.model import Model
from kvlab.core.plan import Ask, Capacity, KvCost
from kvlab.engines.sglang.arguments import check_arguments
from kvlab.engines.sglang.defaults import default_share, runs_on
from kvlab.engines.sglang.doubts import doubts, not_known
from kvlab.engines.sglang.dtypes import layer_bytes, packed, resolve
from kvlab.engines.sglang.expects import expects
from kvlab.engines.sglang.moves import moves
from kvlab.engines.sglang.parallel import attention_ranks, check_parallel, on_stage, stages_of
from kvlab.engines.sglang.pools import (
    Pools,
    Sizes,
    pooled,
    request_bytes,
    request_tokens,
    row_layers,
    running_limit,
    sized,
)
from kvlab.engines.sglang.states import row_bytes, slots_per_request
from kvlab.engines.sglang.versions import release
from kvlab.engines.sglang.weights import overhead, rank_weights


def _carve(deployment: Deployment) -> Carved:
    """Tokens and requests of `deployment` in this release of SGLang.

    Raises MissingFact without a context, BadInput on what SGLang refuses and on layouts it is not known to store.
    """
    ask, model, layout = deployment.ask, deployment.model, deployment.layout
    check_arguments(ask)
    _check(deployment)
    check_parallel(model, layout, ask)
    context = _context(deployment)
    pools = pooled(deployment)
    per_request = slots_per_request(model, ask) if pools.slot else 0
    unknown = not_known(deployment)
    sizes = capacity = None
    if deployment.pool_bytes is not None and unknown is None:
        sizes = sized(pools, deployment.pool_bytes, ask)
        capacity = _capacity(deployment, pools, sizes, context, per_request)
    return Carved(
        kv=KvCost(
            dtype=pools.dtype,
            bytes_per_token=pools.full + pools.window + pools.draft,
            bytes_per_sequence=request_bytes(pools, context, per_request),
            context=context,
        ),
        capacity=capacity,
        context=context,
        expects=expects(deployment, pools, sizes, context) if sizes else (),
        doubts=doubts(deployment, pools, sizes, context),
    )


def _check(deployment: Deployment) -> None:
    ask, model, layout, gpu = deployment.ask, deployment.model, deployment.layout, deployment.gpu
    if ask.kv_dtype_k is not None or ask.kv_dtype_v is not None:
        raise BadInput("SGLang keeps keys and values in one dtype; give --kv-dtype instead of --kv-dtype-k and -v")
    if gpu is not None and gpu.name == "cpu":
        raise BadInput("kvlab plans SGLang on GPUs only; name a GPU, or plan vLLM or llama.cpp on this CPU")
    if layout.pooled:
        raise BadInput(f"how SGLang stores the pooled caches of {model.model_type} is not known here; plan it for vllm")
    if any(layout.only("cross")):
        raise BadInput(
            f"how SGLang stores the cross attention of {model.model_type} is not known here; plan it for vllm"
        )
    if any(layout.only("indexer")) and not any(layout.only("latent")):
        raise BadInput(
            f"how SGLang stores the index of block-sparse attention ({model.model_type}) is not known here; plan it for"
            " vllm"
        )


def _context(deployment: Deployment) -> int:
    """`--context-length`: the asked one, else the model's own. Raises MissingFact or BadInput."""
    ask, native = deployment.ask, deployment.model.context
    if ask.context is None:
        if native is None:
            raise MissingFact("the config names no context length (max_position_embeddings); give --context")
        return native
    if native is not None and ask.context > native and ask.arg("json-model-override-args") is None:
        raise BadInput(
            f"--context {ask.context:,} is above the model's {native:,} tokens; SGLang refuses it unless"
            " SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 is set, and quality beyond the trained length is not known"
        )
    return ask.context


def _capacity(deployment: Deployment, pools: Pools, sizes: Sizes, context: int, per_request: int) -> Capacity:
    full, window = request_tokens(pools, context)
    held = [sizes.tokens / full] if pools.full else []
    if sizes.window_tokens is not None:
        held.append(sizes.window_tokens / window)
    limit = running_limit(sizes, deployment.ask, context, per_request)
    return Capacity(
        pool_bytes=deployment.pool_bytes or 0,
        block_size=pools.page,
        num_blocks=sizes.tokens // pools.page,
        tokens=sizes.tokens,
        max_concurrency=min(*held, float(limit)) if held else float(limit),
        longest_request_tokens=_longest(pools, sizes, context, per_request),
    )


def _longest(pools: Pools, sizes: Sizes, context: int, per_request: int) -> int:
    """Tokens of the longest request that the pools hold, up to the context: max_req_len of the pool."""
    if sizes.slots is not None and sizes.slots < per_request:
        return 0
    full, window = sizes.tokens if pools.full else context, sizes.window_tokens
    if window is not None and request_tokens(pools, context)[1] > window:
        return min(context, full, window)
    return min(context, full)


def token_bytes(model: Model, layout: Layout, dtype: str, ask: Ask) -> int:
    """Bytes that one token adds in all layers of the heaviest stage's rank, before pages and windows."""
    return max(_token_bytes(model, layout, dtype, ask, stage) for stage in stages_of(model, layout, ask))


def _token_bytes(model: Model, layout: Layout, dtype: str, ask: Ask, stage: range) -> int:
    word = resolve(model, layout, dtype, release(ask), None)
    scaled = packed(model, layout, word, release(ask), None)
    return sum(
        row_layers(row, layout, ask, stage) * layer_bytes(row, word, attention_ranks(ask), scaled)
        for row in layout.rows
    )


def sequence_bytes(model: Model, layout: Layout, dtype: str, ask: Ask, tokens: int) -> int:
    """Bytes of one sequence on the heaviest stage's rank before paging: windows bound it, states come on top."""
    word = resolve(model, layout, dtype, release(ask), None)
    scaled = packed(model, layout, word, release(ask), None)
    ranks = attention_ranks(ask)
    return max(
        sum(
            row_layers(row, layout, ask, stage) * row.kept(tokens) * layer_bytes(row, word, ranks, scaled)
            + on_stage(row, stage) * row_bytes(row, ask)
            for row in layout.rows
        )
        for stage in stages_of(model, layout, ask)
    )


PLANNER = Planner(
    dtypes=("bfloat16", "fp8_e4m3", "fp4_mx_block16"),
    default_util=lambda ask: None,
    default_share=default_share,
    most_share=None,
    moves=moves,
    runs_on=runs_on,
    carve=_carve,
    options=frozenset(
        {"tp", "pp", "dp", "ep", "util", "block_size", "max_num_batched_tokens", "max_num_seqs", "prefix_caching"}
    ),
    token_bytes=token_bytes,
    sequence_bytes=sequence_bytes,
    overhead=overhead,
    rank_weights=rank_weights,
)
