"""The user's calibration file: what `kvlab check --learn` saw, and what the next plan for the same engine and GPU uses.

It is $KVLAB_CALIBRATION, else kvlab/calibration.json under $XDG_STATE_HOME or ~/.local/state (see docs/calibration.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from kvlab import engines, store
from kvlab.core.calibration import Calibration, Start
from kvlab.core.errors import BadInput
from kvlab.core.follows import parts
from kvlab.core.observation import Observation
from kvlab.core.plan import Ask, LedgerLine, Plan
from kvlab.core.units import GIB, gib

if TYPE_CHECKING:
    from kvlab.core.check import Check

_MOST_STARTS = 50
"""Starts kept of one engine, version and GPU; older ones are forgotten."""
_ROOM = ("gpu_memory", "left_free", "others")
_FAR, _FAR_BYTES = 4, 4 << 30
"""An overhead that is that many times the most that was estimated, and more than it by those bytes, is an outlier."""
_NOT_ESTIMATED = (*_ROOM, "weights", "calibration", "pool")


def path() -> str:
    """Where the file is, or would be."""
    given = os.environ.get("KVLAB_CALIBRATION")
    if given:
        return given
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "kvlab", "calibration.json")


def read() -> Calibration:
    """What was learned; nothing without a file. Raises BadInput for a file that is not one."""
    name = path()
    if not os.path.lexists(name):
        return Calibration()
    try:
        return store.read(name, Calibration, "calibration")
    except BadInput as error:
        raise BadInput(f"{error}; mend or remove it, or plan with --no-calibration") from None


def known(ask: Ask, version: str, gpu: str) -> tuple[Start, ...]:
    """The starts that bear on a request: same engine, release and GPU."""
    return read().of(ask.engine, version, gpu) if ask.calibration else ()


def gpu_name(ask: Ask) -> str:
    """The GPU under the one name that all its aliases share."""
    if ask.gpu is None:
        return f"{ask.gpu_gib:g}gib"
    from kvlab.facts import gpus

    return gpus.find(ask.gpu).name


def learn(plan: Plan, observation: Observation, check: Check | None = None) -> Start:
    """Writes what the log of a start of `plan` states to the calibration file, and returns it.

    Raises BadInput when the log states no pool, the plan has no budget to compare it with, they do not belong
    together, `check` names a cause that is no overhead (another process, other flags), or the overhead is far more
    than estimated and no line accounts for it.
    """
    if check is not None:
        _refuse_other_causes(check)
    start = _start(plan, observation)
    name = path()
    try:
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot make the folder of {name}: {error.strerror}; set KVLAB_CALIBRATION") from None
    read()  # what is no such file is refused before it is held
    with store.held(name):
        store.write_atomic(name, store.encode(_with(read(), start)))
    return start


def would_learn(plan: Plan, observation: Observation, check: Check) -> bool:
    """Whether `learn` would keep the log."""
    try:
        _refuse_other_causes(check)
        _start(plan, observation)
    except BadInput:
        return False
    return True


def _refuse_other_causes(check: Check) -> None:
    """What another start, or another program, took would be counted as this deployment's overhead."""
    from kvlab import causes

    other = next(
        (
            one
            for one in check.causes
            if (one.setting or one.certainty != "possible") and not causes.cause(one.code).taught
        ),
        None,
    )
    if other is not None:
        raise BadInput(f"not learned, since the log is not of a start of this plan: {other.text}")


def _with(old: Calibration, start: Start) -> Calibration:
    """The file with one start more: once if it was learned before, and without the oldest of too many."""
    kept = [one for one in old.starts if msgspec.structs.replace(one, learned=start.learned) != start]
    same = [one for one in kept if (one.engine, one.version, one.gpu) == (start.engine, start.version, start.gpu)]
    forgotten = same[: max(0, len(same) - _MOST_STARTS + 1)]
    return Calibration(starts=(*(one for one in kept if one not in forgotten), start))


def _start(plan: Plan, observation: Observation) -> Start:
    from kvlab import machine

    pool = observation.get("kv_pool_bytes")
    if pool is None or isinstance(pool.value, str):
        raise BadInput("the log states no memory for the cache, so there is nothing to learn; give a start-up log")
    if observation.given_pool is not None:
        raise BadInput("the log's pool was given to the engine, so it says nothing about the rest of the memory")
    room = _room(plan)
    weights = observation.get("weights_bytes")
    stated = round(weights.value) if weights is not None and not isinstance(weights.value, str) else None
    planned = -_sum(plan.ledger, ("weights",))
    overhead = round(room - _before_share(plan, pool.value)) - (stated if stated is not None else planned)
    if not -(1 << 30) <= overhead <= room:
        raise BadInput(
            f"the log's pool of {gib(pool.value)} and weights of {gib(stated or planned)} do not fit the {gib(room)}"
            f" that {plan.engine.name} may claim by the plan; plan for the GPU and the share that the log is from"
        )
    _refuse_outlier(plan, observation, overhead)
    here, ask = machine.describe(), plan.ask
    return Start(
        engine=plan.engine.name,
        version=observation.version or plan.engine.version,
        gpu=gpu_name(ask),
        model=plan.source.name,
        tp=ask.tp or 1,
        pp=ask.pp,
        dp=ask.dp,
        context=ask.context,
        max_num_batched_tokens=ask.max_num_batched_tokens,
        max_num_seqs=ask.max_num_seqs,
        pool_bytes=round(pool.value),
        weights_bytes=stated,
        overhead_bytes=overhead,
        estimated_overhead_bytes=-sum(line.bytes for line in _terms(plan.ledger)),
        machine=f"{here.system}, {here.processor}, {gib(here.memory_bytes)}",
        learned=machine.now(),
    )


def _refuse_outlier(plan: Plan, observation: Observation, overhead: int) -> None:
    """Far more than was estimated, where no line states it, is likelier another program's, or another start's."""
    terms = _terms(plan.ledger)
    names = ("non_torch", "activations", "cuda_graphs")
    accounted = sum(max(0.0, -part) for name, part in parts(plan, observation).items() if name in names)
    most = sum(max(abs(line.low), abs(line.high)) for line in terms) + accounted
    if overhead > _FAR * most and overhead - most > _FAR_BYTES:
        estimated = -sum(line.bytes for line in terms)
        raise BadInput(
            f"not learned: by the log {gib(overhead)} are neither weights nor cache, {gib(estimated)} were estimated,"
            " and no line accounts for them; another program on the GPU or another start is likelier: if this"
            f" deployment really takes them, plan with --overhead-gib {overhead / GIB:.2f}"
        )


def _room(plan: Plan) -> int:
    """Memory that the engine may claim by the plan."""
    names = [line.name for line in plan.ledger]
    if "gpu_memory" not in names or "pool" not in names:
        raise BadInput("the plan has no budget to learn from; plan with --gpu, and without --pool-gib")
    if any(line.name == "overhead" and line.kind == "computed" for line in plan.ledger):
        raise BadInput("the plan takes its overhead as given; plan without --overhead-gib to learn what it really is")
    room = _ROOM if engines.planner(plan.engine.name).share_of == "all" else ("gpu_memory", "others")
    return _sum(plan.ledger, room)


def _before_share(plan: Plan, pool: float) -> float:
    """The memory of which the pool is a share, where the engine claims one of what is free."""
    planner = engines.planner(plan.engine.name)
    share = plan.ask.util if plan.ask.util is not None else planner.default_util(plan.ask)
    return pool if planner.share_of == "all" or not share else pool / share


def _terms(ledger: tuple[LedgerLine, ...]) -> list[LedgerLine]:
    """The estimated terms of the overhead; what stands below the pool is the engine's own."""
    above = ledger[: next(at for at, line in enumerate(ledger) if line.name == "pool")]
    return [line for line in above if line.name not in _NOT_ESTIMATED]


def _sum(lines: Iterable[LedgerLine], names: tuple[str, ...]) -> int:
    return sum(line.bytes for line in lines if line.name in names)
