"""`kvlab verify`: what a lock froze is planned, started and measured again, and compared with what was frozen.

The runs lie in a lab of their own, step by step, so that an interrupted verify is taken up again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, NamedTuple, TypedDict

import msgspec

from kvlab import __version__, machine, store
from kvlab.core.check import Check
from kvlab.core.comparison import ComparisonRow
from kvlab.core.errors import BadInput
from kvlab.core.level import Level, levels
from kvlab.core.performance import compare_runs
from kvlab.core.plan_lines import Difference, differences, digest, flags, lines
from kvlab.core.quality import Quality
from kvlab.core.record import Machine, Run
from kvlab.core.regression import Evidence, VerifyVerdict, judge
from kvlab.freezing import gpus_here, locked_log
from kvlab.lab import Lab
from kvlab.lockfile import NAME, Lock, LockedEngine, LockedPlan, compared, read, run_of
from kvlab.preflight import check_installed
from kvlab.refit import Refit, refit
from kvlab.repeating import Repeated, Session, agreeing
from kvlab.settings import OnStep, Step
from kvlab.weightfiles import model

FOLDER = "kvlab-verify"
RESULT = "verify.json"
_POOL = ("peak_kv_used", "peak_running", "peak_waiting", "preemptions", "prefix_hit_rate")


class VerifyOptions(TypedDict, total=False):
    """Keywords of `kvlab.verify`, all of them optional."""

    lab: str | PathLike[str] | None
    """Where the runs are kept; None: kvlab-verify, or the next name beside it without a finished verify."""
    source: str | PathLike[str] | None
    """A local model, where it is neither beside the lock nor in the working folder."""
    prompts: str | PathLike[str] | None
    """The file of prompts, alike."""
    runs: int | None
    """None: as many as were frozen."""
    engine_args: Sequence[tuple[str, str]]
    """Settings that lost their path in the lock."""


class Asked(NamedTuple):
    """What to verify, as `VerifyOptions` says, with paths as paths."""

    lock: Path
    lab: Path | None
    source: str | None
    prompts: str | None
    runs: int | None
    engine_args: tuple[tuple[str, str], ...]


def asked(lock: str | PathLike[str], options: VerifyOptions) -> Asked:
    """The request of keywords. Raises BadInput for what is no path."""
    lab, source, prompts = (options.get(name) for name in ("lab", "source", "prompts"))
    return Asked(
        lock=Path(store.place(lock, "kvlab.lock")),
        lab=None if lab is None else Path(store.place(lab, "lab")),
        source=None if source is None else store.place(source, "source"),
        prompts=None if prompts is None else store.place(prompts, "file of prompts"),
        runs=options.get("runs"),
        engine_args=tuple(options.get("engine_args", ())),
    )


class VerifySpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a verify's lab is for: the lock by its hash, and how many runs."""

    schema: Literal["kvlab/verify-lab@1"] = "kvlab/verify-lab@1"
    lock: str
    lock_sha256: str
    runs: int


class SentPrompts(msgspec.Struct, frozen=True, kw_only=True):
    """The prompts of both sides by their hashes. None: nothing was sent."""

    same: bool | None
    before: str | None
    after: str | None


class Verify(msgspec.Struct, frozen=True, kw_only=True):
    """`kvlab verify`: what the contract promises.

    `changed`: versions, machine, model, flags and lines of the log; `plan_changed`: lines of the plan; `engine_said`:
    means over the runs of what the engine's metrics said.
    """

    schema: Literal["kvlab/verify@1"] = "kvlab/verify@1"
    lock: str
    model: str
    arm: Literal["a", "b"] | None
    label: str
    created: str
    finished: str
    kvlab_version: str
    engine: LockedEngine
    machine: Machine
    plan_changed: tuple[Difference, ...]
    changed: tuple[Difference, ...]
    check: Check
    prompts: SentPrompts
    runs: int
    performance: tuple[ComparisonRow, ...] = ()
    results: tuple[Level, ...] = ()
    engine_said: tuple[Difference, ...] = ()
    quality: Quality | None = None
    verdict: VerifyVerdict


def verify(wanted: Asked, on_step: OnStep) -> Verify:
    """Runs the lock again. Raises KvlabError when it cannot be read, planned or started, or when its lab is taken."""
    lock = read(wanted.lock)
    base = wanted.lock if wanted.lock.is_dir() else wanted.lock.parent
    again = refit(lock, base, source=wanted.source, prompts=wanted.prompts, engine_args=wanted.engine_args)
    check_installed((again.plan,))
    runs = wanted.runs if wanted.runs is not None else max(1, len(lock.runs))
    if runs < 1:
        raise BadInput(f"--runs {runs} must be at least 1")
    content = store.read_bytes(wanted.lock / NAME if wanted.lock.is_dir() else wanted.lock, NAME)
    spec = VerifySpec(lock=wanted.lock.name, lock_sha256=hashlib.sha256(content).hexdigest(), runs=runs)
    lab = Lab(lab_of(wanted.lab))
    with lab.claimed(spec):
        if lab.has(RESULT):
            known = lab.load(RESULT, Verify)
            raise BadInput(
                f"{lab.folder} holds a finished verify of {known.finished} ({known.verdict.code}); choose another --lab"
            )
        created = lab.once("created.json", str, machine.now)
        found = Session(lock, again, lab, on_step).run(runs)
        result = _result((wanted, lock, again), found, created, on_step)
        lab.save(RESULT, result)
    return result


def lab_of(given: Path | None) -> Path:
    """The folder of the runs: the given one, or kvlab-verify, or the next name beside it without a finished verify."""
    candidate, number = given or Path(FOLDER), 1
    while given is None and Lab(candidate).has(RESULT):
        number += 1
        candidate = Path(f"{FOLDER}-{number}")
    return candidate


def _result(what: tuple[Asked, Lock, Refit], found: Repeated, created: str, on_step: OnStep) -> Verify:
    wanted, lock, again = what
    now = _now(lock, again, found, on_step)
    frozen = [run_of(run, "a") for run in lock.runs]
    seed = 0 if lock.load is None else lock.load.load.seed
    rows = compare_runs((*frozen, *found.runs), seed=seed) if frozen and found.runs else ()
    quality = None if lock.quality is None else agreeing(lock.quality, found.answers, seed)
    before = None if lock.load is None else lock.load.prompts_sha256
    same = None if before is None or found.prompts_sha256 is None else before == found.prompts_sha256
    if same and lock.load is not None and lock.load.times_sha256 not in (None, found.times_sha256):
        same = False
    known = lock.log.differed if lock.log is not None else ()
    assert now.log is not None  # a session has always read its log
    changed = tuple(one for one in compared(lock, now) if not one.name.startswith("plan "))
    return Verify(
        lock=wanted.lock.name,
        model=lock.model.name,
        arm=lock.arm,
        label=lock.label,
        created=created,
        finished=machine.now(),
        kvlab_version=__version__,
        engine=now.engine,
        machine=now.machine,
        plan_changed=differences(lock.plan.lines, now.plan.lines),
        changed=changed,
        check=found.check,
        prompts=SentPrompts(same=same, before=before, after=found.prompts_sha256),
        runs=len(found.runs),
        performance=rows,
        results=levels(found.runs, frozen, seed=seed) if found.runs else (),
        engine_said=_said(frozen, found.runs),
        quality=quality,
        verdict=judge(
            Evidence(
                rows=rows,
                frozen=frozen,
                runs=found.runs,
                contradicted=[name for name in now.log.differed if name not in known],
                quality=quality,
                same_prompts=same,
            )
        ),
    )


def _now(lock: Lock, again: Refit, found: Repeated, on_step: OnStep) -> Lock:
    """The lock as it would be written now: what both have can be compared."""
    plan, place = again.plan, again.place
    named = lines(plan)
    told = {name: plan.source.name if value == place else value for name, value in flags(plan).items()}
    for name in told.keys() - lock.flags.keys():
        if lock.model.revision is not None and told[name] == lock.model.revision:
            del told[name]  # what was downloaded then, and is named now so that the same is served
    return msgspec.structs.replace(
        lock,
        kvlab_version=__version__,
        engine=LockedEngine(name=plan.engine.name, planned=plan.engine.version, version=found.version),
        model=model(plan.source, place, lambda done, total: on_step(Step(0, 1, "hashing the weights", done, total))),
        machine=machine.describe(),
        gpus=gpus_here(),
        flags=told,
        plan=LockedPlan(digest=digest(named), lines=named),
        log=locked_log(found.check),
    )


def _said(frozen: list[Run], runs: tuple[Run, ...]) -> tuple[Difference, ...]:
    """Means over the runs of what the engine said of itself, where either side has them."""
    found = []
    for name in _POOL:
        before, after = (_mean([getattr(run.pool, name) for run in side]) for side in (frozen, runs))
        if (before is not None or after is not None) and runs:
            found.append(Difference(name, before, after))
    return tuple(found)


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
