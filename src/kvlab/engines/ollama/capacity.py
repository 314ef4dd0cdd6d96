"""What Ollama's llama-server holds: the context times the requests that run together, as llama.cpp counts cells."""

from __future__ import annotations

import msgspec

from kvlab.core.engine import Carved, Deployment, Planner
from kvlab.core.errors import BadInput
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask, Capacity, Expected, KvCost
from kvlab.core.releases import newer
from kvlab.core.units import GIB, MIB
from kvlab.engines._llama.cells import (
    MOST_SLOTS,
    STORAGES,
    Cells,
    Types,
    cells,
    check_pools,
    longest_context,
    most_slots,
    total_bytes,
    types,
)
from kvlab.engines._llama.stated import buffers, cache_lines, expects, sequence_bytes, token_bytes
from kvlab.engines.ollama import ENGINE
from kvlab.engines.ollama.arguments import check_arguments
from kvlab.engines.ollama.context import Served, default_context, micro_batch, served
from kvlab.engines.ollama.versions import CHILD, CONTEXT_TIERS, release

_BEFORE_CHILD = ("f16", "q8_0", "q4_0")
_ESTIMATED = {"f16": 2.0, "q8_0": 1.0, "q4_0": 0.5}
"""Bytes of a value in Ollama's own estimate, which leaves out the scales."""


def storage(ask: Ask) -> Types:
    """The cache type. Raises BadInput for one that the release does not take."""
    word = (ask.kv_dtype or "f16").lower()
    if release(ask) < CHILD and word not in (*_BEFORE_CHILD, "auto"):
        raise BadInput(
            f"Ollama {ask.engine_version} stores the cache in {', '.join(_BEFORE_CHILD)} only, not in {word}"
        )
    return types(word)


def shape_of(deployment: Deployment, held: Served, stored: Types) -> Cells:
    """The caches of the child: `-c num_ctx x parallel -np parallel`, which gives every slot its own."""
    n_ctx = held.num_ctx * held.slots
    plain = cells(n_ctx, held.slots, unified=False)
    batch = micro_batch(deployment, n_ctx, total_bytes(deployment.layout, plain, stored))
    return cells(n_ctx, held.slots, unified=False, ubatch=batch)


def _carve(deployment: Deployment) -> Carved:
    model, layout, ask = deployment.model, deployment.layout, deployment.ask
    check_arguments(ask)
    _check(deployment)
    stored, held = storage(ask), served(deployment)
    if held.slots > MOST_SLOTS:
        raise BadInput(f"llama-server has at most {MOST_SLOTS} slots, {held.slots:,} were asked for; lower --parallel")
    shape = shape_of(deployment, held, stored)
    one = cells(shape.n_ctx_seq, 1, unified=False, ubatch=shape.ubatch)
    whole = total_bytes(layout, shape, stored)
    return Carved(
        kv=KvCost(
            dtype=stored.name,
            bytes_per_token=token_bytes(model, layout, stored.name, ask),
            bytes_per_sequence=total_bytes(layout, one, stored),
            context=held.num_ctx,
        ),
        capacity=Capacity(
            pool_bytes=whole,
            block_size=1,
            num_blocks=shape.n_ctx,
            tokens=shape.n_ctx,
            max_concurrency=float(held.slots),
            longest_request_tokens=held.num_ctx,
        ),
        context=held.num_ctx,
        cache_lines=(*cache_lines(layout, shape, stored), *buffers(model, shape)),
        expects=_expects(deployment, shape, stored),
        doubts=(*held.doubts, *_doubts(deployment, whole)),
    )


def _check(deployment: Deployment) -> None:
    """Raises BadInput for what Ollama's caches are not known to do."""
    model, layout, ask = deployment.model, deployment.layout, deployment.ask
    if (ask.tp or 1) > 1:
        raise BadInput("kvlab plans Ollama on one device; give --gpu-gib with the memory of all, or leave out --gpus")
    check_pools(model.model_type, layout)
    if release(ask) < CHILD and (layout.windowed or any(layout.only("state"))):
        raise BadInput(
            f"how Ollama {ask.engine_version} sizes windows and states depends on which of its two runners takes the"
            " model; plan for 0.30 or later, where llama-server does"
        )


def _expects(deployment: Deployment, shape: Cells, stored: Types) -> tuple[Expected, ...]:
    model, layout, ask = deployment.model, deployment.layout, deployment.ask
    rows = []
    if ask.context is None and release(ask) >= CONTEXT_TIERS and deployment.gpu is not None:
        because = "the tier of the GPU's memory"
        rows.append(_row("default_context", default_context(deployment), "tokens", because, 0))
    if release(ask) >= CHILD:
        return (*rows, *expects(model, layout, shape, stored))
    whole = total_bytes(layout, shape, stored)
    values = sum(row.values_per_token() for row in layout.rows) * shape.n_ctx
    estimate = round(values * _ESTIMATED[stored.key.name])
    rows += [
        _row("kv_bytes", whole, "bytes", f"cells x layers x row bytes of {stored.name}", _printed(whole)),
        _row("kv_estimate_bytes", estimate, "bytes", "Ollama's own estimate, without scales", _printed(estimate)),
    ]
    return tuple(rows)


def _row(name: str, value: float, unit: str, because: str, tolerance: float) -> Expected:
    return Expected(name=name, value=value, unit=unit, kind="computed", tolerance=tolerance, because=because)


def _printed(size: int) -> float:
    """Half of the last digit of "936.0 MiB" or "1.5 GiB"."""
    return 0.05 * (GIB if size >= GIB else MIB)


def _doubts(deployment: Deployment, whole: int) -> list[Doubt]:
    model, layout, ask = deployment.model, deployment.layout, deployment.ask
    found = newer(release(ask), release(Ask()), ENGINE.title)
    if deployment.pool_bytes is not None and whole > deployment.pool_bytes:
        text = "layers that do not fit go to the CPU without an error, and answers slow down: look for"
        found.append(Doubt("num_gpu", f'{text} "offloaded N/N layers to GPU" in the log'))
    if ask.arg("num_gpu") is not None:
        text = "places so many layers, with their cache, on the GPU; passed on, and planned as if it were all of them"
        found.append(Doubt("num_gpu", text))
    if model.weight_format != "gguf":
        text = "Ollama converts checkpoints of some architectures only, and keeps a window only where the GGUF says so"
        found.append(Doubt("source", f"{text}; plan the .gguf file to be sure"))
    if layout.windowed and ask.ubatch is None:
        text = "window caches grow with num_batch, which the Modelfile pins; without it Ollama chooses by free memory"
        found.append(Doubt("num_batch", text))
    if layout.draft and release(ask) >= CHILD:
        found.append(Doubt("draft", "Ollama may draft with the model's own MTP layers, whose cache is not planned"))
    return found


def _same_pool(deployment: Deployment, carved: Carved, dtype: str) -> Deployment:
    """The same memory in another type: more requests of the same length, or one shorter where it holds none."""
    shape = shape_of(deployment, served(deployment), storage(deployment.ask))
    room, other = carved.capacity.pool_bytes if carved.capacity is not None else 0, types(dtype)
    slots, context = most_slots(deployment.layout, other, room, shape), carved.context
    if slots == 0:
        one = cells(shape.n_ctx_seq, 1, unified=False, ubatch=shape.ubatch)
        slots, context = 1, longest_context(deployment.layout, other, room, one, deployment.model.context)
    if context == 0:
        raise BadInput(f"the same memory holds no context in {dtype}")
    ask = msgspec.structs.replace(
        deployment.ask, kv_dtype=dtype, context=context, parallel=slots, users=None, ubatch=shape.ubatch
    )
    return msgspec.structs.replace(deployment, ask=ask)


def _one_request(ask: Ask) -> Ask:
    """One slot; --context is already that of one request."""
    return msgspec.structs.replace(ask, parallel=1, users=None)


PLANNER = Planner(
    dtypes=tuple(STORAGES),
    default_util=lambda ask: None,
    carve=_carve,
    # https://docs.ollama.com/gpu
    runs_on=lambda gpu, ask: gpu.vendor in ("nvidia", "amd", "apple"),
    options=frozenset({"parallel", "ubatch"}),
    token_bytes=token_bytes,
    sequence_bytes=sequence_bytes,
    guess_overhead=(300 * MIB, 450 * MIB, 600 * MIB),
    overhead_because="the GPU context of the child process; llama-server also wants 1 GiB to stay free"
    " (LLAMA_ARG_FIT_TARGET), or it leaves layers on the CPU",
    one_request=_one_request,
    same_pool=_same_pool,
)
