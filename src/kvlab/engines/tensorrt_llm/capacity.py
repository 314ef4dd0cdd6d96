"""How TensorRT-LLM turns what is free into blocks, and the numbers that it prints.

tensorrt_llm/_torch/pyexecutor (_util.py, resource_manager.py) of 1.0 to 1.4: after a dry run, free memory x
free_gpu_memory_fraction over the bytes of a token, then whole blocks.
"""

from __future__ import annotations

from kvlab.core.engine import Carved, Deployment, Gpu, Planner
from kvlab.core.errors import BadInput, MissingFact
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Doubt, Model
from kvlab.core.plan import Ask, Capacity, Expected, KvCost
from kvlab.core.releases import newer
from kvlab.core.storage import Storage
from kvlab.core.units import GIB, HALF_DIGIT, ceil_div
from kvlab.engines.tensorrt_llm import ENGINE
from kvlab.engines.tensorrt_llm.arguments import argument_doubts, backend, check_arguments
from kvlab.engines.tensorrt_llm.dtypes import STORAGES, resolve
from kvlab.engines.tensorrt_llm.versions import check_release

BLOCK = 32
"""tokens_per_block of the PyTorch flow; engines of the TensorRT backend were built with 64 or 128."""
FRACTION = 0.9
_AMPERE = (8, 0)
_LEAST = {"fp8": (8, 9), "nvfp4": (10, 0)}
"""The compute capability that a cache dtype needs."""
_ATTENTION = ("full", "window", "chunked", "latent")


def _carve(deployment: Deployment) -> Carved:
    model, layout, ask = deployment.model, deployment.layout, deployment.ask
    check_release(ask)
    check_arguments(ask)
    _check_layout(model, layout, ask)
    storage = resolve(model, ask)
    _check_gpu(model, storage, deployment.gpu)
    context, block = _context(deployment), _block(ask)
    per_token = token_bytes(model, layout, storage.name, ask)
    per_request = ceil_div(context, block)
    capacity = None
    if deployment.pool_bytes is not None and per_token:
        blocks = _blocks(deployment.pool_bytes // per_token, block, ask)
        capacity = Capacity(
            pool_bytes=deployment.pool_bytes,
            block_size=block,
            num_blocks=blocks,
            tokens=blocks * block,
            max_concurrency=blocks / per_request,
            longest_request_tokens=min(context, blocks * block),
        )
    return Carved(
        kv=KvCost(storage.name, per_token, per_request * block * per_token, context),
        capacity=capacity,
        context=context,
        expects=_expects(deployment, storage, per_token, capacity, context),
        doubts=tuple(_doubts(deployment, context)),
    )


def _blocks(tokens: int, block: int, ask: Ask) -> int:
    """Whole blocks; the TensorRT backend rounds up (https://github.com/NVIDIA/TensorRT-LLM/issues/224)."""
    return ceil_div(tokens, block) if backend(ask) == "tensorrt" else tokens // block


def _check_layout(model: Model, layout: Layout, ask: Ask) -> None:
    """Raises BadInput for caches whose layout in TensorRT-LLM is not known here, and for heads that do not divide."""
    if model.weight_format == "gguf":
        raise BadInput("TensorRT-LLM serves Hugging Face checkpoints, not GGUF files; give the folder or the Hub id")
    other = sorted({row.kind for row in layout.rows if row.kind not in _ATTENTION})
    if other or layout.pooled:
        what = "pooled latents" if layout.pooled else " and ".join(other)
        raise BadInput(
            f"how TensorRT-LLM stores the {what} cache of {model.model_type} is not known here; plan it for vllm"
        )
    tp = ask.tp or 1
    if model.heads is not None and model.heads % tp:
        raise BadInput(f"TensorRT-LLM cannot split {model.heads} attention heads over --tp {tp}")
    if model.layers and ask.pp > model.layers:
        raise BadInput(f"--pp {ask.pp} leaves stages without layers; the model has {model.layers}")


def _check_gpu(model: Model, storage: Storage, gpu: Gpu | None) -> None:
    """Raises BadInput for a GPU or a checkpoint that cannot have the cache.

    Source: https://nvidia.github.io/TensorRT-LLM, support matrix (fp8 from Ada on) and quantization.
    """
    if storage.name == "nvfp4" and model.kv_cache_format != "nvfp4":
        raise BadInput(
            f"an nvfp4 cache needs a checkpoint that ModelOpt made for it, which {model.name} is not; use fp8"
        )
    if gpu is None:
        return
    if gpu.vendor not in (None, "nvidia"):
        raise BadInput(f"TensorRT-LLM runs on NVIDIA GPUs only, not on {gpu.title}")
    capability = gpu.compute_capability
    least = _LEAST.get(storage.name, _AMPERE)
    if capability is not None and capability < least:
        what = "TensorRT-LLM" if least == _AMPERE else f"its {storage.name} cache"
        numbers = ".".join(map(str, least))
        raise BadInput(
            f"{what} needs compute capability {numbers} or more; {gpu.title} has {capability[0]}.{capability[1]}"
        )


def _context(deployment: Deployment) -> int:
    context = deployment.ask.context or deployment.model.context
    if context is None:
        raise MissingFact("the config names no context length (max_position_embeddings); give --context")
    return context


def _block(ask: Ask) -> int:
    block = ask.block_size or BLOCK
    if block & (block - 1):
        raise BadInput(f"--block-size {block}: TensorRT-LLM's tokens_per_block is a power of two")
    return block


def _row_bytes(row: Row, storage: Storage, tp: int) -> int:
    """Bytes of one token in one layer on one rank: ceil(KV heads / tp) heads, or the whole latent."""
    heads = 1 if row.kind == "latent" else ceil_div(row.heads, tp)
    return storage.row_bytes(heads * row.k_dim) + storage.row_bytes(heads * row.v_dim)


def token_bytes(model: Model, layout: Layout, dtype: str, ask: Ask) -> int:
    """Bytes that one token adds on the fullest rank: the first pipeline stages hold the layers that do not divide."""
    storage, tp = STORAGES[dtype], ask.tp or 1
    of_layer = {layer: _row_bytes(row, storage, tp) for row in layout.rows for layer in row.layers}
    layers = sorted(of_layer)
    size, rest = divmod(len(layers), ask.pp)
    stages, at = [], 0
    for stage in range(ask.pp):
        end = at + size + (stage < rest)
        stages.append(sum(of_layer[layer] for layer in layers[at:end]))
        at = end
    return max(stages)


def sequence_bytes(model: Model, layout: Layout, dtype: str, ask: Ask, tokens: int) -> int:
    """Bytes of a sequence of `tokens` before it is cut into blocks; windows are not taken off (see the doubt)."""
    return tokens * token_bytes(model, layout, dtype, ask)


def _expects(
    deployment: Deployment, storage: Storage, per_token: int, capacity: Capacity | None, context: int
) -> tuple[Expected, ...]:
    block = _block(deployment.ask)
    rows = [
        _exact(
            "kv_token_bytes", per_token, "bytes", "KV heads x head size x layers on one rank, as the dry run counts"
        ),
        _exact("block_size", block, "tokens", "kv_cache_config.tokens_per_block"),
    ]
    if capacity is None:
        return tuple(rows)
    rows += [
        _exact("kv_tokens", capacity.tokens, "tokens", f"whole blocks of {block} tokens that the pool holds", 0.5),
        _exact("num_gpu_blocks", capacity.num_blocks, "blocks", "tokens of the pool over tokens_per_block", 0.5),
    ]
    if storage.name != "nvfp4":  # whether the line counts the scales is not known
        size = capacity.tokens * per_token
        rows.append(_exact("kv_allocated_bytes", size, "bytes", "blocks x bytes of a block", HALF_DIGIT * GIB))
    if capacity.tokens >= context:
        blocks = ceil_div(context, block)
        rows.append(_exact("blocks_per_sequence", blocks, "blocks", f"{context:,} tokens over tokens_per_block"))
    else:
        because = "one request does not fit, and TensorRT-LLM lowers the context to what does"
        rows.append(_exact("longest_request_tokens", capacity.tokens, "tokens", because, block))
    return tuple(rows)


def _exact(name: str, value: float, unit: str, because: str, tolerance: float = 0) -> Expected:
    return Expected(name=name, value=value, unit=unit, kind="computed", tolerance=tolerance, because=because)


def _doubts(deployment: Deployment, context: int) -> list[Doubt]:
    model, ask = deployment.model, deployment.ask
    found = newer(check_release(ask), check_release(Ask()), ENGINE.title)
    if deployment.layout.windowed:
        found.append(
            Doubt(
                "sliding_window",
                "planned as if every layer kept the whole context, as one pool does; with"
                " kv_cache_config.max_attention_window (newer releases may set it themselves) each window size gets a"
                " pool of its own, and the log names them: then more fits than planned",
            )
        )
    if model.context is not None and context > model.context:
        found.append(Doubt("context", f"{context:,} tokens are above the {model.context:,} the model was made for"))
    if ask.pp > 1 and model.layers % ask.pp:
        found.append(Doubt("pp", f"{model.layers} layers do not divide over --pp {ask.pp}; the first stages get more"))
    if deployment.layout.draft and ask.arg("speculative_config.decoding_type"):
        found.append(Doubt("speculative_config", "a draft's own cache is not planned for TensorRT-LLM"))
    return [*found, *argument_doubts(ask)]


PLANNER = Planner(
    dtypes=("bfloat16", "fp8", "nvfp4"),
    default_util=lambda ask: FRACTION,
    carve=_carve,
    # Ampere and later: https://nvidia.github.io/TensorRT-LLM/reference/support-matrix.html
    runs_on=lambda gpu, ask: gpu.vendor == "nvidia" and (gpu.compute_capability or _AMPERE) >= _AMPERE,
    token_bytes=token_bytes,
    sequence_bytes=sequence_bytes,
    options=frozenset(
        {"tp", "pp", "ep", "util", "block_size", "max_num_batched_tokens", "max_num_seqs", "prefix_caching"}
    ),
    guess_overhead=(GIB, 5 * GIB // 2, 6 * GIB),
    overhead_because="CUDA context, workspaces and the peak of the dry run; a public log of a 0.6B model on an H100"
    " leaves 1.7 GiB beside weights and free memory, and activations grow with max_num_tokens; measure it or give"
    " --overhead-gib",
    share_of="free",
)
