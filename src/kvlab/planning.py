"""From a model and a request to a plan: the ledger, the capacity, the alternatives, the verdict, the launch."""

from __future__ import annotations

import os
from typing import NamedTuple

import msgspec

from kvlab import calibration, engines, freeroom, overhead, ranges, tables, tiering
from kvlab.core import budget
from kvlab.core.engine import Carved, Deployment, Gpu, Planner, Tiered
from kvlab.core.model import Doubt, Origin, Weights
from kvlab.core.plan import Ask, EngineId, Expected, Launch, LedgerLine, Plan
from kvlab.core.sizing import LongestContext
from kvlab.core.speed import Speed
from kvlab.core.units import GIB
from kvlab.request import beside_others, settled
from kvlab.servedname import served_as
from kvlab.source import Loaded
from kvlab.verdict import Around, judge

WEIGHT_FILES = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
"""Endings of files that an engine loads weights from."""


class Prepared(NamedTuple):
    """A deployment ready to be carved, with the ledger that its pool comes from."""

    planner: Planner
    deployment: Deployment
    ledger: tuple[LedgerLine, ...]
    pool: LedgerLine | None
    """The ledger's last line; None when neither a GPU nor a pool is known, or no weights are."""
    doubts: list[Doubt]


class Foreseen(NamedTuple):
    """A request carved, and what the engine's log will say of it: a plan without its tables and its launch."""

    prepared: Prepared
    carved: Carved
    usual: int | None
    """The scheduler's default limit, where it was raised."""
    ends: tuple[Carved, Carved] | None
    below: Tiered

    @property
    def expects(self) -> tuple[Expected, ...]:
        """Every number and word that the log will state, with its range."""
        return (*ranges.expects(self.prepared.pool, self.carved, self.ends), *self.below.expects)


def foresee(loaded: Loaded, ask: Ask) -> Foreseen:
    """What a start of `ask` will say. Raises KvlabError for a request that cannot be planned."""
    prepared, carved, usual = _carved(loaded, ask)
    below = tiering.tiered(prepared.deployment, carved, prepared.ledger)
    return Foreseen(prepared, carved, usual, _ends(prepared), below)


def make_plan(loaded: Loaded, ask: Ask, source: str) -> Plan:
    """The plan of `ask` for a model; `source` is how the user names it, for the launch command.

    Raises KvlabError for a request that cannot be planned, naming what to change.
    """
    identity, foreseen = engines.engine(ask.engine), foresee(loaded, ask)
    prepared, carved, ends, below = foreseen.prepared, foreseen.carved, foreseen.ends, foreseen.below
    planner, deployment, ask = prepared.planner, prepared.deployment, prepared.deployment.ask
    stranger = _stranger(prepared, identity.title)
    dtypes = _offered(prepared, carved.kv.dtype, known=stranger is None)
    alternatives = tuple(found for dtype in dtypes if (found := tables.alternative(planner, deployment, carved, dtype)))
    around = Around(
        stranger=stranger.text if stranger is not None else None,
        kv_flag=identity.kv_flag,
        pool=prepared.pool,
        low=ends[0] if ends else None,
        most=_most(prepared),
        usual=foreseen.usual,
        moves=freeroom.moves(planner, deployment, carved, prepared.pool),
        host=below.needs,
    )
    return Plan(
        source=loaded.origin,
        engine=EngineId(identity.name, ask.engine_version or identity.version),
        layout=tuple(tables.layout_lines(planner, deployment, carved)),
        kv=carved.kv,
        ledger=prepared.ledger + carved.cache_lines,
        capacity=carved.capacity,
        alternatives=alternatives,
        contexts=tuple(tables.contexts(planner, deployment, carved, dtypes)),
        verdict=judge(deployment, carved, alternatives, around),
        launch=_launch(deployment, carved, loaded.origin, source),
        expects=foreseen.expects,
        doubts=(
            *([stranger] if stranger is not None else []),
            *loaded.doubts,
            *carved.doubts,
            *prepared.doubts,
            *ranges.doubt(prepared.pool, carved, ends, ask, _most(prepared)),
            *below.doubts,
        ),
        ask=ask,
        longest_context=_longest(prepared, carved, dtypes),
        speed=_speed(loaded, prepared, carved),
        capacity_low=ends[0].capacity if ends else None,
        capacity_high=ends[1].capacity if ends else None,
        tiers=below.tiers,
        host=below.needs,
    )


def _carved(loaded: Loaded, ask: Ask) -> tuple[Prepared, Carved, int | None]:
    """The request carved; with the scheduler's limit raised where more users than its default are meant and fit.

    The last value is that default, where it was raised.
    """
    prepared = prepare(loaded, ask)
    carved = prepared.planner.carve(prepared.deployment)
    usual, users = _most(prepared), ask.users
    if usual is None or users is None or ask.max_num_seqs is not None or carved.capacity is None:
        return prepared, carved, None
    wanted = min(-(-users // ask.dp), int(carved.capacity.max_concurrency))
    if wanted <= usual:
        return prepared, carved, None
    raised = prepare(loaded, msgspec.structs.replace(ask, max_num_seqs=wanted))
    return raised, raised.planner.carve(raised.deployment), usual


def _stranger(prepared: Prepared, title: str) -> Doubt | None:
    """A doubt about a GPU that the engine's makers do not list: what the search for GPUs leaves out."""
    gpu, runs_on = prepared.deployment.gpu, prepared.planner.runs_on
    if gpu is None or gpu.vendor is None or gpu.name == "cpu" or runs_on is None:
        return None
    if runs_on(gpu, prepared.deployment.ask):
        return None
    version = prepared.deployment.ask.engine_version or engines.engine(prepared.deployment.ask.engine).version
    return Doubt("gpu", f"{title} {version} is not known to run on {gpu.title}")


def _offered(prepared: Prepared, current: str, *, known: bool) -> tuple[str, ...]:
    """The cache dtypes to compare: the one in use where the engine may not run, else those that the chip reads."""
    if not known:
        return (current,)
    formats = prepared.deployment.gpu.formats if prepared.deployment.gpu is not None else None
    found = tables.dtypes(prepared.planner, current)
    words = (("fp4", "fp4"), ("fp4", "nvfp4"), ("bf16", "bfloat16"))
    lacking = tuple(word for format, word in words if formats is not None and format not in formats)
    return tuple(dtype for dtype in found if dtype == current or not dtype.startswith(lacking))


def _most(prepared: Prepared) -> int | None:
    """Requests that one replica's scheduler runs together; None: as many as the cache holds."""
    ask, most = prepared.deployment.ask, prepared.planner.most_requests
    return ask.max_num_seqs or (most(ask, prepared.deployment.gpu) if most else None)


def prepare(loaded: Loaded, ask: Ask, gpu: Gpu | None = None, planner: Planner | None = None) -> Prepared:
    """The request made whole, and the memory that it leaves for the cache.

    `gpu` stands for the one that the request names, `planner` for the engine's own.

    Raises BadInput for a request that contradicts itself, UnknownGpu.
    """
    planner = planner or engines.planner(ask.engine)
    ask = settled(ask, planner)
    tiering.check(ask)
    gpu = gpu or _gpu(ask)
    ask = beside_others(ask, gpu, planner)
    before = Deployment(
        model=loaded.model,
        layout=loaded.layout,
        ask=ask,
        gpu=gpu,
        pool_bytes=None,
        weights=_weights(loaded, ask),
        share=_share(ask, planner, loaded, gpu),
        share_of=planner.share_of,
        most_share=planner.most_share,
    )
    lines, doubts = _ledger(before, planner, loaded.origin.name)
    pool = lines[-1] if lines else None
    deployment = msgspec.structs.replace(before, pool_bytes=max(0, pool.bytes) if pool else None)
    return Prepared(planner, deployment, lines, pool, doubts)


def _launch(deployment: Deployment, carved: Carved, origin: Origin, source: str) -> Launch:
    """The command on the default port."""
    launcher = engines.launcher(deployment.ask.engine)
    served, deployment = served_as(origin, source, deployment, launcher)
    launch = launcher.command(deployment, carved, served)
    port = str(launcher.default_port)
    return msgspec.structs.replace(
        launch,
        argv=tuple(word.replace("{port}", port) for word in launch.argv),
        env={name: value.replace("{port}", port) for name, value in launch.env.items()},
        files={name: text.replace("{port}", port) for name, text in launch.files.items()},
        flags=tuple(
            msgspec.structs.replace(flag, value=flag.value and flag.value.replace("{port}", port))
            for flag in launch.flags
        ),
        lacks=launch.lacks or _lacks(origin, served),
    )


def _lacks(origin: Origin, served: str) -> str | None:
    """What stands between the command and a running engine on this machine: weights."""
    if origin.kind not in ("config", "folder"):
        return None
    if not os.path.isdir(served):
        return f"a config alone holds no weights: put the folder or the Hub id that has them in the place of {served}"
    if any(name.endswith(WEIGHT_FILES) for name in os.listdir(served)):
        return None
    return f"{served} holds no weights: the command starts from a folder that has them, or from a Hub id in its place"


def _gpu(ask: Ask) -> Gpu | None:
    named = None
    if ask.gpu is not None:
        from kvlab.facts import gpus

        named = gpus.find(ask.gpu)
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


def _weights(loaded: Loaded, ask: Ask) -> Weights | None:
    if ask.weights_gib is not None:
        return Weights(bytes=round(ask.weights_gib * GIB), kind="computed", because="taken as given (--weights-gib)")
    return loaded.weights


def _ledger(before: Deployment, planner: Planner, model: str) -> tuple[tuple[LedgerLine, ...], list[Doubt]]:
    """The memory line by line, for a deployment whose pool is not known yet; `model` is the source's name."""
    ask, gpu = before.ask, before.gpu
    if ask.pool_gib is not None:
        return budget.given_pool(ask.pool_gib), []
    if gpu is None:
        return (), []
    if before.weights is None:
        text = "the source holds no weights to measure, so the pool is unknown: give --weights-gib X (or --pool-gib X)"
        return (), [Doubt("weights", text)]
    starts = calibration.known(ask, ask.engine_version or engines.engine(ask.engine).version, gpu.name)
    taken = overhead.taken(planner, before, starts, model)
    others = budget.held_by_others(ask, gpu)
    return budget.ledger(gpu, before.share, taken, planner.share_of, others), []


def _share(ask: Ask, planner: Planner, loaded: Loaded, gpu: Gpu | None) -> float | None:
    if ask.util is not None:
        return ask.util
    if planner.default_share is None:
        return planner.default_util(ask)
    bare = Deployment(model=loaded.model, layout=loaded.layout, ask=ask, gpu=gpu, pool_bytes=None)
    return planner.default_share(bare)


def _longest(prepared: Prepared, carved: Carved, dtypes: tuple[str, ...]) -> tuple[LongestContext, ...]:
    """The answer to a request that names memory and no context."""
    deployment, pool = prepared.deployment, prepared.pool
    if pool is None or pool.bytes <= 0 or deployment.ask.context is not None:
        return ()
    return tables.longest_contexts(prepared.planner, deployment, carved, pool, dtypes)


def _speed(loaded: Loaded, prepared: Prepared, carved: Carved) -> Speed | None:
    if prepared.deployment.gpu is None or carved.capacity is None or prepared.deployment.pool_bytes == 0:
        return None
    from kvlab.speed import expected

    return expected(loaded, prepared.planner, prepared.deployment, carved)


def _ends(prepared: Prepared) -> tuple[Carved, Carved] | None:
    """The deployment carved at both ends of an estimated pool; None when the pool is exact or unknown."""
    pool = prepared.pool
    if pool is None or pool.kind != "estimated":
        return None
    low, high = (
        prepared.planner.carve(msgspec.structs.replace(prepared.deployment, pool_bytes=max(0, end)))
        for end in (pool.low, pool.high)
    )
    return low, high
