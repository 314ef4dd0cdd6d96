"""How LMDeploy carves what is free after the weights into blocks: the PyTorch engine and TurboMind.

lmdeploy/pytorch/engine/executor/base.py and cache_engine/ of 0.18.0; TurboMind's block manager of 0.10.
"""

from __future__ import annotations

from kvlab.core.engine import Carved, Deployment, Gpu, Planner
from kvlab.core.errors import BadInput, MissingFact
from kvlab.core.layout import Layout
from kvlab.core.model import Doubt, Model
from kvlab.core.plan import Ask, Capacity, Expected, KvCost
from kvlab.core.releases import newer
from kvlab.core.units import HALF_DIGIT, MIB, ceil_div, round_up
from kvlab.engines.lmdeploy import ENGINE
from kvlab.engines.lmdeploy.arguments import Backend, backend, check_arguments
from kvlab.engines.lmdeploy.dtypes import OFFERED, Policy, parts, policy, resolve
from kvlab.engines.lmdeploy.memory import overhead
from kvlab.engines.lmdeploy.models import check_model, is_sparse
from kvlab.engines.lmdeploy.versions import OBJECT_CACHE, release

BLOCK = 64
WIDE_BLOCK = 32
"""Block of the PyTorch engine for heads of 512 values or more."""
RATIO = 0.8
_ALIGNED = 256
"""Every tensor of a block is padded to this many bytes in the PyTorch engine."""
_ATTENTION = ("full", "window", "chunked", "latent")
_VOLTA = (7, 0)
_PAGED = (*_ATTENTION, "indexer")


def _carve(deployment: Deployment) -> Carved:
    model, layout, ask = deployment.model, deployment.layout, deployment.ask
    check_arguments(ask)
    check_model(model, ask)
    _check_gpu(deployment.gpu)
    engine = backend(model, ask)
    _check_layout(model, layout, engine)
    _check_parallel(model, layout, ask)
    if engine == "turbomind" and release(ask) >= OBJECT_CACHE and ask.util == 1:
        raise BadInput("--util 1: TurboMind takes a share below 1 of the free memory; leave it room, as 0.9")
    stored = resolve(model, ask, engine)
    _check_stored(model, layout, stored)
    context, block = _context(deployment), block_tokens(model, layout, ask, engine)
    size = block_bytes(deployment, stored, block, engine)
    per_request = ceil_div(context, block)
    capacity = None
    if deployment.pool_bytes is not None and size:
        blocks = deployment.pool_bytes // size
        capacity = Capacity(
            pool_bytes=deployment.pool_bytes,
            block_size=block,
            num_blocks=blocks,
            tokens=blocks * block,
            max_concurrency=blocks / per_request,
            longest_request_tokens=min(context, _longest(blocks, block, engine)),
        )
    per_token = token_bytes(model, layout, stored.name, ask)
    return Carved(
        kv=KvCost(stored.name, per_token, per_request * size, context),
        capacity=capacity,
        context=context,
        expects=_expects(deployment, engine, size, capacity),
        doubts=tuple(_doubts(deployment, engine, capacity)),
    )


def _check_gpu(gpu: Gpu | None) -> None:
    if gpu is None:
        return
    old = gpu.compute_capability is not None and gpu.compute_capability < _VOLTA
    if gpu.vendor not in (None, "nvidia") or old:
        raise BadInput(f"LMDeploy is planned for NVIDIA GPUs from Volta on, not for {gpu.title}")


def _check_layout(model: Model, layout: Layout, engine: Backend) -> None:
    """Raises BadInput for caches whose layout in LMDeploy is not known here."""
    if model.weight_format == "gguf":
        raise BadInput("LMDeploy serves Hugging Face checkpoints, not GGUF files; give the folder or the Hub id")
    known = (*_PAGED, "state") if is_sparse(model) else (*_ATTENTION, "state")
    other = {row.kind for row in layout.rows if row.kind not in known}
    if engine == "turbomind":
        other |= {row.kind for row in layout.rows if row.kind in ("latent", "state")}
    if other or layout.pooled:
        what = "pooled latents" if layout.pooled else " and ".join(sorted(other))
        name = "TurboMind" if engine == "turbomind" else "LMDeploy"
        way = "add --engine-arg backend=pytorch" if engine == "turbomind" else "plan it for vllm"
        raise BadInput(f"how {name} stores the {what} cache of {model.model_type} is not known here; {way}")
    shapes = {(row.heads, row.k_dim, row.v_dim) for row in layout.rows if row.kind in _ATTENTION}
    if len(shapes) > 1:
        raise BadInput(
            f"how LMDeploy stores {model.model_type}, whose layers have KV heads of {len(shapes)} shapes, is not known"
            " here; plan it for vllm"
        )


def _check_parallel(model: Model, layout: Layout, ask: Ask) -> None:
    tp = ask.tp or 1
    if model.heads is not None and model.heads % tp:
        raise BadInput(f"LMDeploy cannot split {model.heads} attention heads over --tp {tp}")
    for row in layout.only("full", "window", "chunked"):
        if row.heads % tp and tp % row.heads:
            raise BadInput(f"LMDeploy cannot split or copy {row.heads} KV heads over --tp {tp}")


def _check_stored(model: Model, layout: Layout, stored: Policy) -> None:
    latent = any(layout.only("latent"))
    if is_sparse(model) and stored.name == "fp8_e5m2":
        raise BadInput("LMDeploy keeps sparse latents in bfloat16 or fp8 (fp8_ds_mla) only; use fp8")
    if latent and stored.key_scales:
        raise BadInput(f"a latent cache in {stored.name} is not known for LMDeploy; use auto or fp8")
    for row in layout.rows:
        if row.kind in _ATTENTION and (row.k_dim * stored.key_bits % 8 or row.v_dim * stored.value_bits % 8):
            raise BadInput(f"LMDeploy cannot pack heads of {row.k_dim} values into {stored.name}; use int8")


def _context(deployment: Deployment) -> int:
    context = deployment.ask.context or deployment.model.context
    if context is None:
        raise MissingFact("the config names no context length (max_position_embeddings); give --context")
    return context


def block_tokens(model: Model, layout: Layout, ask: Ask, engine: Backend) -> int:
    """Tokens of a block. Raises BadInput for a size that the kernels do not take."""
    block = ask.block_size or BLOCK
    if is_sparse(model):
        if block != BLOCK:
            raise BadInput(f"--block-size {block}: flash_mla, which sparse latents need, takes blocks of {BLOCK} only")
        return block
    if engine == "turbomind":
        if block % WIDE_BLOCK:
            raise BadInput(f"--block-size {block}: TurboMind wants a multiple of 32 (of 64 on GPUs older than Ampere)")
        return block
    wide = any(row.k_dim >= 512 for row in layout.rows)
    return min(block, WIDE_BLOCK) if wide else block


def block_bytes(deployment: Deployment, stored: Policy, tokens: int, engine: Backend) -> int:
    """Bytes of one block of `tokens` in all layers on one rank."""
    tp, sparse = deployment.ask.tp or 1, is_sparse(deployment.model)
    pad = _ALIGNED if engine == "pytorch" else 1
    return sum(
        len(row.layers) * round_up(part * tokens, pad)
        for row in deployment.layout.rows
        if row.kind in _PAGED
        for part in parts(row, stored, tp, sparse=sparse)
    )


def _longest(blocks: int, block: int, engine: Backend) -> int:
    """The PyTorch engine keeps one block to itself, and ends a session one block before the pool does."""
    return max(0, blocks - 2) * block if engine == "pytorch" else blocks * block


def token_bytes(model: Model, layout: Layout, dtype: str, ask: Ask) -> int:
    """Bytes that one token adds on one rank, all layers, before blocks are padded."""
    stored, tp, sparse = policy(dtype), ask.tp or 1, is_sparse(model)
    paged = [row for row in layout.rows if row.kind in _PAGED]
    return sum(len(row.layers) * sum(parts(row, stored, tp, sparse=sparse)) for row in paged)


def sequence_bytes(model: Model, layout: Layout, dtype: str, ask: Ask, tokens: int) -> int:
    """Bytes of a sequence of `tokens` before it is cut into blocks; windows are not taken off (see the doubt)."""
    return tokens * token_bytes(model, layout, dtype, ask)


def _expects(deployment: Deployment, engine: Backend, size: int, capacity: Capacity | None) -> tuple[Expected, ...]:
    """What the log states; TurboMind of 0.16 on states its pool in bytes and no blocks."""
    ask = deployment.ask
    blocks_printed = engine == "pytorch" or release(ask) < OBJECT_CACHE
    rows = []
    if engine == "turbomind" and blocks_printed:
        because = "bytes of a token in all layers x --cache-block-seq-len"
        rows.append(_row("kv_block_bytes", size, "bytes", because, 0.0005 * MIB))
    if engine == "pytorch":
        block = block_tokens(deployment.model, deployment.layout, ask, engine)
        rows.append(_row("block_size", block, "tokens", "--cache-block-seq-len, 32 for heads of 512 values", 0))
    if capacity is None:
        return tuple(rows)
    if not blocks_printed:
        rows.append(
            _row("kv_pool_bytes", capacity.pool_bytes, "bytes", "the ratio of the free memory", HALF_DIGIT * MIB)
        )
        return tuple(rows)
    rows += [
        _row("num_gpu_blocks", capacity.num_blocks, "blocks", "the pool over the bytes of one block", 0.5),
        _row("kv_tokens", capacity.tokens, "tokens", "blocks x tokens of a block", 0.5),
    ]
    return tuple(rows)


def _row(name: str, value: float, unit: str, because: str, tolerance: float) -> Expected:
    return Expected(name=name, value=value, unit=unit, kind="computed", tolerance=tolerance, because=because)


def _doubts(deployment: Deployment, engine: Backend, capacity: Capacity | None) -> list[Doubt]:
    model, ask, layout = deployment.model, deployment.ask, deployment.layout
    found = newer(release(ask), release(Ask()), ENGINE.title)
    if engine == "turbomind" and release(ask) >= OBJECT_CACHE:
        text = "TurboMind of 0.16 on prints its pool in bytes, not in blocks, and rounds objects to pages: tokens are a"
        found.append(Doubt("backend", f"{text} little fewer than planned"))
        if ask.pool_gib is not None:
            found.append(Doubt("pool", "TurboMind takes no pool in bytes: --util decides what it really claims"))
    if layout.windowed:
        text = "planned as if every layer kept the whole context; a request may hold less behind its window"
        found.append(Doubt("sliding_window", text))
        if engine == "pytorch" and ask.prefix_caching:
            found.append(Doubt("prefix_caching", "the PyTorch engine turns it off for sliding windows, with a warning"))
    if any(layout.only("latent")) and not is_sparse(model):
        found.append(Doubt("block_size", "64 tokens where the flash_mla package is installed; planned with 32"))
    if engine == "pytorch" and capacity is not None and capacity.num_blocks < 16:
        text = "fewer than 16 blocks: LMDeploy lowers max_prefill_token_num, which frees memory for a few more"
        found.append(Doubt("max_num_batched_tokens", text))
    if model.context is not None and ask.context is not None and ask.context > model.context:
        found.append(Doubt("context", f"{ask.context:,} tokens are above the {model.context:,} the model was made for"))
    return found


PLANNER = Planner(
    dtypes=OFFERED,
    default_util=lambda ask: RATIO,
    carve=_carve,
    # Volta and later: https://lmdeploy.readthedocs.io/en/latest/get_started/installation.html
    runs_on=lambda gpu, ask: gpu.vendor == "nvidia" and (gpu.compute_capability or _VOLTA) >= _VOLTA,
    token_bytes=token_bytes,
    sequence_bytes=sequence_bytes,
    options=frozenset({"tp", "ep", "util", "block_size", "max_num_batched_tokens", "max_num_seqs", "prefix_caching"}),
    overhead=overhead,
    share_of="free",
)
