"""From a model and a request to a plan: the ledger, the capacity, the alternatives, the verdict, the launch."""

from __future__ import annotations

import os

import msgspec

from kvlab import engines
from kvlab.core import budget
from kvlab.core.engine import Carved, Deployment, Gpu, Planner
from kvlab.core.errors import KvlabError
from kvlab.core.layout import Layout
from kvlab.core.model import Doubt, Origin, Weights
from kvlab.core.plan import (
    Alternative,
    Ask,
    ContextLine,
    EngineId,
    Expected,
    Launch,
    LayoutLine,
    LedgerLine,
    Plan,
)
from kvlab.core.units import GIB, size
from kvlab.request import settled
from kvlab.source import Loaded
from kvlab.verdict import judge

CONTEXTS = (4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576)
"""Rows of the per-context table, in tokens."""


def make_plan(loaded: Loaded, ask: Ask, source: str) -> Plan:
    """The plan of `ask` for a model; `source` is how the user names it, for the launch command.

    Raises KvlabError for a request that cannot be planned, naming what to change.
    """
    planner, identity = engines.planner(ask.engine), engines.engine(ask.engine)
    ask = settled(ask, planner)
    gpu = _gpu(ask)
    weights = _weights(loaded, ask)
    lines, doubts = _ledger(gpu, ask, planner, weights)
    pool = lines[-1] if lines else None
    deployment = Deployment(
        model=loaded.model,
        layout=loaded.layout,
        ask=ask,
        gpu=gpu,
        pool_bytes=max(0, pool.bytes) if pool else None,
        weights=weights,
        share=_share(ask, planner),
        share_of=planner.share_of,
    )
    carved = planner.carve(deployment)
    dtypes = _dtypes(planner, carved.kv.dtype)
    alternatives = tuple(found for dtype in dtypes if (found := _alternative(planner, deployment, carved, dtype)))
    return Plan(
        source=loaded.origin,
        engine=EngineId(identity.name, ask.engine_version or identity.version),
        layout=tuple(_layout_lines(planner, deployment, carved)),
        kv=carved.kv,
        ledger=lines + carved.cache_lines,
        capacity=carved.capacity,
        alternatives=alternatives,
        contexts=tuple(_contexts(planner, deployment, carved, dtypes)),
        verdict=judge(deployment, carved, alternatives, identity.kv_flag, weights_known=weights is not None),
        launch=_launch(deployment, carved, loaded.origin, source),
        expects=_expects(planner, deployment, carved, pool),
        doubts=(*loaded.doubts, *carved.doubts, *doubts, *_range_doubt(planner, deployment, carved, pool)),
        ask=ask,
    )


def _launch(deployment: Deployment, carved: Carved, origin: Origin, source: str) -> Launch:
    """The command on the default port."""
    launcher = engines.launcher(deployment.ask.engine)
    launch = launcher.command(deployment, carved, _served(deployment.model.name, origin, source))
    port = str(launcher.default_port)
    return msgspec.structs.replace(
        launch,
        argv=tuple(word.replace("{port}", port) for word in launch.argv),
        files={name: text.replace("{port}", port) for name, text in launch.files.items()},
        flags=tuple(
            msgspec.structs.replace(flag, value=flag.value and flag.value.replace("{port}", port))
            for flag in launch.flags
        ),
    )


def _served(name: str, origin: Origin, source: str) -> str:
    """What an engine can serve: a config.json stands for its folder, a config of another name for its model."""
    if origin.kind != "config":
        return source
    folder, file = os.path.split(source)
    return (folder or ".") if file == "config.json" else name


def _gpu(ask: Ask) -> Gpu | None:
    named = _named_gpu(ask.gpu) if ask.gpu is not None else None
    if ask.gpu_gib is None:
        return named
    usable = round(ask.gpu_gib * GIB)
    if named is not None:
        return msgspec.structs.replace(named, usable_bytes=usable)
    return Gpu(
        name=f"{ask.gpu_gib:g}gib",
        title=f"a GPU of {ask.gpu_gib:g} GiB",
        usable_bytes=usable,
        bandwidth=None,
        source="--gpu-gib",
    )


def _named_gpu(name: str) -> Gpu:
    from kvlab.facts import gpus

    return gpus.find(name)


def _weights(loaded: Loaded, ask: Ask) -> Weights | None:
    if ask.weights_gib is not None:
        return Weights(bytes=round(ask.weights_gib * GIB), kind="computed", because="taken as given (--weights-gib)")
    return loaded.weights


def _ledger(
    gpu: Gpu | None, ask: Ask, planner: Planner, weights: Weights | None
) -> tuple[tuple[LedgerLine, ...], list[Doubt]]:
    if ask.pool_gib is not None:
        return budget.given_pool(ask.pool_gib), []
    if gpu is None:
        return (), []
    if weights is None:
        text = "the source holds no weights to measure, so the pool is unknown: give --weights-gib X (or --pool-gib X)"
        return (), [Doubt("weights", text)]
    taken = [budget.weights_taken(weights, (ask.tp or 1) * ask.pp), _overhead(ask, planner)]
    return budget.ledger(gpu, _share(ask, planner), taken, planner.share_of), []


def _share(ask: Ask, planner: Planner) -> float | None:
    return ask.util if ask.util is not None else planner.default_util(ask)


def _overhead(ask: Ask, planner: Planner) -> budget.Taken:
    if ask.overhead_gib is not None:
        given = round(ask.overhead_gib * GIB)
        return budget.Taken(
            name="overhead",
            low=given,
            bytes=given,
            high=given,
            kind="computed",
            because="taken as given (--overhead-gib)",
        )
    low, guess, high = planner.guess_overhead
    return budget.Taken(
        name="overhead", low=low, bytes=guess, high=high, kind="estimated", because=planner.overhead_because
    )


def _layout_lines(planner: Planner, deployment: Deployment, carved: Carved) -> list[LayoutLine]:
    model, ask, dtype = deployment.model, deployment.ask, carved.kv.dtype
    return [
        LayoutLine(
            kind=row.kind,
            layers=len(row.layers),
            bytes_per_token=planner.token_bytes(model, Layout((row,)), dtype, ask),
            bytes_per_sequence=planner.sequence_bytes(model, Layout((row,)), dtype, ask, carved.context),
            window=row.window,
        )
        for row in deployment.layout.rows
    ]


def _dtypes(planner: Planner, current: str) -> tuple[str, ...]:
    return (current, *(dtype for dtype in planner.dtypes if dtype != current))


def _alternative(planner: Planner, deployment: Deployment, carved: Carved, dtype: str) -> Alternative | None:
    """The same pool in another dtype; None when the engine refuses that dtype for this model."""
    over = _over(carved, deployment.pool_bytes)
    if dtype == carved.kv.dtype:
        other = carved
    else:
        # What was asked for does not fit: then the question is whether the same fits in another dtype.
        change = _change_dtype if over or planner.same_pool is None else planner.same_pool
        try:
            other = planner.carve(change(deployment, carved, dtype))
        except KvlabError:
            return None
    capacity = other.capacity
    if capacity is None:
        return Alternative(dtype, None, None, None)
    return Alternative(
        dtype,
        capacity.tokens,
        capacity.max_concurrency,
        capacity.longest_request_tokens >= carved.context and not (over and _over(other, deployment.pool_bytes)),
    )


def _over(carved: Carved, pool: int | None) -> bool:
    """Whether an engine whose caches are asked for would take more than the pool."""
    return pool is not None and carved.capacity is not None and carved.capacity.pool_bytes > pool


def _change_dtype(deployment: Deployment, carved: Carved, dtype: str) -> Deployment:
    ask = msgspec.structs.replace(deployment.ask, kv_dtype=dtype, kv_dtype_k=None, kv_dtype_v=None)
    return msgspec.structs.replace(deployment, ask=ask)


def _contexts(planner: Planner, deployment: Deployment, carved: Carved, dtypes: tuple[str, ...]) -> list[ContextLine]:
    lines = []
    for dtype in dtypes:
        for tokens in sorted({*CONTEXTS, carved.context}):
            try:
                charged = _request_bytes(planner, deployment, dtype, tokens)
            except KvlabError:
                break
            room, native = deployment.pool_bytes, deployment.model.context
            many = room / charged if room and charged else None
            lines.append(ContextLine(tokens, dtype, charged, many, native is not None and tokens > native))
    return lines


def _request_bytes(planner: Planner, deployment: Deployment, dtype: str, tokens: int) -> int:
    """What the engine charges one request of `tokens`, whether the model was trained for it or not."""
    alone = planner.one_request(deployment.ask) if planner.one_request else deployment.ask
    ask = msgspec.structs.replace(alone, context=tokens, kv_dtype=dtype, kv_dtype_k=None, kv_dtype_v=None)
    model = deployment.model
    if model.context is not None and tokens > model.context:
        model = msgspec.structs.replace(model, context=tokens)
    charged = planner.carve(msgspec.structs.replace(deployment, ask=ask, model=model)).kv.bytes_per_sequence
    if charged is None:
        return planner.sequence_bytes(model, deployment.layout, dtype, ask, tokens)
    return charged


def _range_doubt(
    planner: Planner, deployment: Deployment, carved: Carved, pool: LedgerLine | None
) -> tuple[Doubt, ...]:
    """A pool that is only estimated, when its low end changes the answer."""
    if pool is None or pool.kind != "estimated" or carved.capacity is None:
        return ()

    def holds(room: int) -> bool:
        found = planner.carve(msgspec.structs.replace(deployment, pool_bytes=max(0, room)))
        enough = found.capacity is not None and found.capacity.longest_request_tokens >= carved.context
        return enough and not _over(found, max(0, room))

    if holds(pool.bytes) == holds(pool.low) == holds(pool.high):
        return ()
    text = (
        f"the pool is an estimate between {size(max(0, pool.low))} and {size(pool.high)}: {carved.context:,} tokens fit"
        " at one end and not at the other; kvlab check of a first start tells, then give --overhead-gib"
    )
    return (Doubt("pool", text),)


def _expects(planner: Planner, deployment: Deployment, carved: Carved, pool: LedgerLine | None) -> tuple[Expected, ...]:
    """What the log will say. Numbers that follow from an estimated pool are expected anywhere within its range."""
    if pool is None or pool.kind != "estimated":
        return carved.expects
    ends = [
        planner.carve(msgspec.structs.replace(deployment, pool_bytes=max(0, end))).expects
        for end in (pool.low, pool.high)
    ]
    return tuple(_ranged(row, [other for end in ends for other in end]) for row in carved.expects)


def _ranged(row: Expected, others: list[Expected]) -> Expected:
    """`row` with the range that the same row has at the ends of the pool's."""
    value = row.value
    found = [other.value for other in others if other.name == row.name and not isinstance(other.value, str)]
    if isinstance(value, str) or all(other == value for other in found):
        return row
    low, high = min(value, *found), max(value, *found)
    spread = max(high - value, value - low)
    return msgspec.structs.replace(row, tolerance=row.tolerance + spread, kind="estimated", low=low, high=high)
