"""What a llama-server holds: contexts and slots are asked for, the bytes follow exactly."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Carved, Deployment, Planner
from kvlab.core.errors import BadInput, MissingFact
from kvlab.core.layout import Layout
from kvlab.core.model import Doubt, Model
from kvlab.core.plan import Ask, Capacity, KvCost
from kvlab.core.units import GIB, MIB, round_up
from kvlab.engines._llama.cells import (
    AUTO_SLOTS,
    MOST_SLOTS,
    PAD,
    STORAGES,
    Cells,
    Types,
    cells,
    check_blocks,
    check_pools,
    longest_context,
    most_slots,
    total_bytes,
    types,
    without_flash,
)
from kvlab.engines._llama.stated import buffers, cache_lines, expects, sequence_bytes, token_bytes
from kvlab.engines.llamacpp.arguments import argument_doubts, check_arguments, flash_attention_off, micro_batch
from kvlab.engines.llamacpp.versions import unknown_yet


def _asked_types(ask: Ask) -> Types:
    both = ask.kv_dtype or "f16"
    return types(f"{ask.kv_dtype_k or both}/{ask.kv_dtype_v or both}")


def _slots_follow(ask: Ask) -> bool:
    """Whether the number of slots is what the pool allows, rather than asked for."""
    return ask.pool_gib is not None and ask.parallel is None and ask.users is None


def _shape(deployment: Deployment, storage: Types) -> Cells:
    """The caches that are meant: `--context` is `-c`, unless users or a pool are named (docs/decisions/0003)."""
    ask, native = deployment.ask, deployment.model.context
    slots = ask.parallel or ask.users or AUTO_SLOTS
    if slots > MOST_SLOTS:
        raise BadInput(
            f"llama.cpp has at most {MOST_SLOTS} slots, {slots:,} were asked for; lower --parallel or --users"
        )
    named = ask.parallel or ask.users or ask.pool_gib
    unified = ask.kv_unified if ask.kv_unified is not None else not named
    ubatch = micro_batch(ask)
    if _slots_follow(ask):
        return _fill_with_slots(deployment, storage, unified)
    if ask.context is None and ask.pool_gib is not None:
        shape = cells(PAD * slots, slots, unified=unified, ubatch=ubatch, swa_full=ask.swa_full)
        n_ctx = longest_context(deployment.layout, storage, round(ask.pool_gib * GIB), shape, native)
        if n_ctx == 0:
            raise BadInput(f"--pool-gib {ask.pool_gib:g} holds no context of 256 tokens in {slots} slots; give more")
    elif ask.context is None:
        if native is None:
            raise MissingFact("the model does not state its context; give --context N")
        n_ctx = native if unified else native * slots
    else:
        per_user = ask.users is not None and ask.parallel is None
        n_ctx = ask.context * slots if per_user else ask.context
    return cells(n_ctx, slots, unified=unified, ubatch=ubatch, swa_full=ask.swa_full)


def _fill_with_slots(deployment: Deployment, storage: Types, unified: bool) -> Cells:
    ask = deployment.ask
    context = ask.context or deployment.model.context
    if context is None:
        raise MissingFact("the model does not state its context; give --context N")
    one = cells(context, 1, unified=unified, ubatch=micro_batch(ask), swa_full=ask.swa_full)
    slots = most_slots(deployment.layout, storage, round((ask.pool_gib or 0) * GIB), one)
    if slots == 0:
        need = total_bytes(deployment.layout, one, storage) / GIB
        raise BadInput(
            f"--pool-gib {ask.pool_gib:g} does not hold one request of {context:,} tokens in {storage.name}:"
            f" it needs {need:.4f} GiB; shorten --context or choose a smaller cache dtype"
        )
    total = one.n_ctx_seq * slots
    return cells(total, slots, unified=unified, ubatch=one.ubatch, swa_full=ask.swa_full)


def _check_native(model: Model, shape: Cells) -> None:
    roomy = shape.unified and shape.slots > 1
    if model.context is not None and shape.n_ctx_seq > round_up(model.context, PAD) * (shape.slots if roomy else 1):
        raise BadInput(
            f"context {shape.n_ctx_seq:,} is above the {model.context:,} tokens that {model.name} was trained for;"
            " lower --context"
        )


def _carve(deployment: Deployment) -> Carved:
    model, layout, ask = deployment.model, deployment.layout, deployment.ask
    check_arguments(ask)
    if (ask.tp or 1) > 1:
        raise BadInput(
            "kvlab plans llama.cpp on one device; give --gpu-gib with the memory of all, or leave out --gpus"
        )
    check_pools(model.model_type, layout)
    storage = _asked_types(ask)
    if storage.key != storage.value and any(row.kind == "latent" for row in layout.rows):
        raise BadInput(
            f"llama.cpp refuses different cache types for keys and values ({storage.name}) on a latent cache"
        )
    if flash_attention_off(ask):
        layout = without_flash(layout, storage)
        deployment = msgspec.structs.replace(deployment, layout=layout)
    else:
        check_blocks([row for row in layout.rows if row.kind != "state"], storage)
    shape = _shape(deployment, storage)
    _check_native(model, shape)
    per_request = min(shape.n_ctx_seq, model.context or shape.n_ctx_seq)
    one = cells(shape.n_ctx_seq, 1, unified=shape.unified, ubatch=shape.ubatch, swa_full=shape.swa_full)
    whole = total_bytes(layout, shape, storage)
    concurrent = shape.slots if not shape.unified else min(shape.slots, shape.n_ctx / per_request)
    return Carved(
        kv=KvCost(
            dtype=storage.name,
            bytes_per_token=token_bytes(model, layout, storage.name, ask),
            bytes_per_sequence=total_bytes(layout, one, storage),
            context=per_request,
        ),
        capacity=Capacity(
            pool_bytes=whole,
            block_size=1,
            num_blocks=shape.n_ctx,
            tokens=shape.n_ctx,
            max_concurrency=float(concurrent),
            longest_request_tokens=per_request,
        ),
        context=per_request,
        cache_lines=tuple(cache_lines(layout, shape, storage)) + tuple(buffers(model, shape)),
        expects=tuple(expects(model, layout, shape, storage)),
        doubts=(*_doubts(model, layout), *_asked_doubts(ask)),
    )


def _doubts(model: Model, layout: Layout) -> list[Doubt]:
    if layout.windowed and model.weight_format != "gguf":
        return [
            Doubt(
                "sliding_window",
                "llama.cpp keeps a window only for architectures whose GGUF says so; plan the .gguf file to be sure",
            )
        ]
    indexed = any(layout.only("indexer")) and any(layout.only("state")) and not any(layout.only("latent"))
    if model.weight_format != "gguf" and indexed:
        return [
            Doubt(
                "indexer",
                "llama.cpp stores more in its indexer cache than the keys of this config; plan the .gguf to be sure",
            )
        ]
    return []


def _asked_doubts(ask: Ask) -> list[Doubt]:
    text = unknown_yet(ask)
    return [*([Doubt("engine-version", text)] if text is not None else []), *argument_doubts(ask)]


def _one_request(ask: Ask) -> Ask:
    """One slot, with no pool to fill."""
    return msgspec.structs.replace(ask, parallel=1, users=None, pool_gib=None, kv_unified=False)


def _same_pool(deployment: Deployment, carved: Carved, dtype: str) -> Deployment:
    """The same memory in another type: more slots of the same length, or more cells where slots share them.

    One shorter slot where not even one of that length is held.
    """
    shape = _shape(deployment, _asked_types(deployment.ask))
    room = carved.capacity.pool_bytes if carved.capacity is not None else 0
    ask = msgspec.structs.replace(
        deployment.ask,
        kv_dtype=dtype,
        kv_dtype_k=None,
        kv_dtype_v=None,
        pool_gib=room / GIB,
        users=None,
        kv_unified=shape.unified,
    )
    if shape.unified:
        ask = msgspec.structs.replace(ask, context=None, parallel=shape.slots)
    elif most_slots(deployment.layout, types(dtype), room, shape):
        ask = msgspec.structs.replace(ask, context=shape.n_ctx_seq, parallel=None)
    else:
        ask = msgspec.structs.replace(ask, context=None, parallel=1)
    return msgspec.structs.replace(deployment, ask=ask)


PLANNER = Planner(
    dtypes=tuple(STORAGES),
    default_util=lambda ask: None,
    carve=_carve,
    runs_on=lambda gpu, ask: "gaudi" not in gpu.name,  # CUDA, HIP, Metal, SYCL and Vulkan reach all others
    options=frozenset({"kv_dtype_k", "kv_dtype_v", "parallel", "kv_unified", "swa_full", "ubatch", "prefix_caching"}),
    token_bytes=token_bytes,
    sequence_bytes=sequence_bytes,
    guess_overhead=(300 * MIB, 450 * MIB, 600 * MIB),
    overhead_because="what the process keeps beside weights, caches and buffers: driver context, kernels",
    one_request=_one_request,
    same_pool=_same_pool,
)
