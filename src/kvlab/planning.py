"""From a model and a request to a plan: the ledger, the capacity, the alternatives, the verdict, the launch."""

from __future__ import annotations

import os

import msgspec

from kvlab import engines
from kvlab.core import budget
from kvlab.core.engine import Carved, Deployment, Gpu, Planner
from kvlab.core.errors import BadInput, KvlabError
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
from kvlab.core.units import GIB
from kvlab.source import Loaded
from kvlab.verdict import judge

CONTEXTS = (4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576)
"""Rows of the per-context table, in tokens."""


OWN_OPTIONS = frozenset(
    {
        *("tp", "pp", "dp", "dcp", "ep", "util", "block_size", "max_num_batched_tokens", "max_num_seqs"),
        *("prefix_caching", "mamba_cache_mode"),
        *("kv_dtype_k", "kv_dtype_v", "parallel", "kv_unified", "swa_full", "ubatch"),
    }
)
"""Fields of Ask that some engines have and others do not."""
_NOTHING_ASKED = Ask()
_SECRETS = ("api-key", "hf-token", "token")
"""Flags whose values must not reach a plan, a record or a report."""


def make_plan(loaded: Loaded, ask: Ask, source: str) -> Plan:
    """The plan of `ask` for a model; `source` is how the user names it, for the launch command.

    Raises KvlabError for a request that cannot be planned, naming what to change.
    """
    planner, identity = engines.planner(ask.engine), engines.engine(ask.engine)
    ask = _settled(ask, planner)
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
        doubts=(*loaded.doubts, *carved.doubts, *doubts),
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


def _settled(ask: Ask, planner: Planner) -> Ask:
    """The request with its GPUs split: `--gpus` alone means tensor parallelism over all of them.

    Raises BadInput for a number out of range, an option that the engine does not have, or a secret.
    """
    _refuse_other_engines(ask, planner)
    for name in ("tp", "pp", "dp", "dcp", "ep", "gpus", "users", "parallel", "context", "block_size", "ubatch"):
        value = getattr(ask, name)
        if value is not None and value < 1:
            raise BadInput(f"--{name.replace('_', '-')} {value} must be at least 1")
    for name in ("gpu_gib", "pool_gib", "weights_gib"):
        value = getattr(ask, name)
        if value is not None and not 0 < value < 1e6:
            raise BadInput(f"--{name.replace('_', '-')} {value:g} must be more than 0 GiB and less than a million")
    if ask.overhead_gib is not None and not 0 <= ask.overhead_gib < 1e6:
        raise BadInput(f"--overhead-gib {ask.overhead_gib:g} must be 0 or more GiB")
    if ask.util is not None and not 0 < ask.util <= 1:
        raise BadInput(
            f"--util {ask.util:g} must be above 0 and at most 1, the share of GPU memory that the engine claims"
        )
    secret = next((name for name, _ in ask.engine_args if name.lstrip("-").replace("_", "-").lower() in _SECRETS), None)
    if secret is not None:
        raise BadInput(
            f"--engine-arg {secret} would write a secret into plans and records; set it in the engine's environment"
        )
    split = ask.pp * ask.dp
    tp = ask.tp if ask.tp is not None else max(1, (ask.gpus or split) // split)
    if ask.gpus is not None and ask.gpus != tp * split:
        raise BadInput(f"--gpus {ask.gpus} is not --tp {tp} x --pp {ask.pp} x --dp {ask.dp} = {tp * split}")
    return msgspec.structs.replace(ask, tp=tp)


def _refuse_other_engines(ask: Ask, planner: Planner) -> None:
    """An option that the engine does not have would be dropped silently."""
    for name in OWN_OPTIONS - planner.options:
        if getattr(ask, name) != getattr(_NOTHING_ASKED, name):
            known = ", ".join(sorted(f"--{option.replace('_', '-')}" for option in planner.options))
            raise BadInput(f"--{name.replace('_', '-')} is no option of {ask.engine}; its own are {known}")


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
    return budget.ledger(gpu, _share(ask, planner), taken), []


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
    if dtype == carved.kv.dtype:
        other, room = carved, deployment
    else:
        same_pool = planner.same_pool or _change_dtype
        try:
            room = same_pool(deployment, carved, dtype)
            other = planner.carve(room)
        except KvlabError:
            return None
    capacity = other.capacity
    if capacity is None:
        return Alternative(dtype, None, None, None)
    return Alternative(
        dtype, capacity.tokens, capacity.max_concurrency, capacity.longest_request_tokens >= carved.context
    )


def _change_dtype(deployment: Deployment, carved: Carved, dtype: str) -> Deployment:
    ask = msgspec.structs.replace(deployment.ask, kv_dtype=dtype, kv_dtype_k=None, kv_dtype_v=None)
    return msgspec.structs.replace(deployment, ask=ask)


def _contexts(planner: Planner, deployment: Deployment, carved: Carved, dtypes: tuple[str, ...]) -> list[ContextLine]:
    lines = []
    for dtype in dtypes:
        for tokens in sorted({*CONTEXTS, carved.context}):
            try:
                size = _request_bytes(planner, deployment, dtype, tokens)
            except KvlabError:
                break
            room, native = deployment.pool_bytes, deployment.model.context
            many = room / size if room and size else None
            lines.append(ContextLine(tokens, dtype, size, many, native is not None and tokens > native))
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


def _expects(planner: Planner, deployment: Deployment, carved: Carved, pool: LedgerLine | None) -> tuple[Expected, ...]:
    """What the log will say. Numbers that follow from an estimated pool are expected anywhere within its range."""
    if pool is None or pool.kind != "estimated":
        return carved.expects
    ends = [
        {
            row.name: row.value
            for row in planner.carve(msgspec.structs.replace(deployment, pool_bytes=max(0, end))).expects
        }
        for end in (pool.low, pool.high)
    ]
    rows = []
    for row in carved.expects:
        spread = max((abs(end[row.name] - row.value) for end in ends if row.name in end), default=0)
        rows.append(msgspec.structs.replace(row, tolerance=row.tolerance + spread, kind="estimated") if spread else row)
    return tuple(rows)
