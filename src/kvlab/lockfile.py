"""kvlab.lock: a configuration and what was measured on it, complete enough to run it again and compare.

JSON, like every other document of kvlab: it has a null for what is not known, one strict decoder reads all of them,
and any language can. Lists of numbers stand on one line each, so that a change of one run is one line of a diff. No
path, no host name and no key is in it; what a path was is its last part, and `left_out` names the settings that lost
theirs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import msgspec

from kvlab import store
from kvlab.core.errors import BadInput
from kvlab.core.level import Level
from kvlab.core.measure import PoolUse
from kvlab.core.plan import Ask
from kvlab.core.plan_lines import Difference, Value, differences
from kvlab.core.record import AbVerdict, Design, Load, Machine, Run, RunRow
from kvlab.load.datasets import Dataset

NAME = "kvlab.lock"
_FLAT = re.compile(r"\[\s+((?:-?[\d.eE+-]+|null)(?:,\s+(?:-?[\d.eE+-]+|null))*)\s+\]")


class LockedEngine(msgspec.Struct, frozen=True, kw_only=True):
    """The engine: the version whose rules planned it, and the one that its log states (None: not seen)."""

    name: str
    planned: str
    version: str | None


class LockedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the model's weights. `sha256` is None where hashing it would take too long, or nobody states it."""

    name: str
    bytes: int
    sha256: str | None = None


class LockedModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model: a Hub id with its commit, or the name of a folder or file, and its weights (empty: not found)."""

    name: str
    kind: Literal["hub", "folder", "config", "gguf"]
    revision: str | None
    files: tuple[LockedFile, ...] = ()


class LockedGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU as its driver described it."""

    name: str
    memory_bytes: int | None
    driver: str | None
    runtime: str | None


class LockedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan's lines, and the digest by which plans are known to be equal."""

    digest: str
    lines: dict[str, Value]


class LockedLog(msgspec.Struct, frozen=True, kw_only=True):
    """What the engine's log said beside the plan: its numbers, and the names of those that differed."""

    agreed: int
    differed: tuple[str, ...]
    seen: dict[str, float | str]


class LockedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What was sent, and in which order the runs of the experiment went ("a b b a")."""

    load: Load
    dataset: Dataset
    warm_up: int
    prompts_sha256: str
    times_sha256: str | None = None
    """Of the times at which the data set has them sent; None: the load does not follow them, or an older lock."""
    order: str


class LockedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One run, request by request (seconds; None: it has none), and what the engine said of it."""

    block: int
    metrics: dict[str, float]
    completed: int
    failed: int
    pool: PoolUse
    scheduled: tuple[float, ...]
    ttft: tuple[float | None, ...]
    tpot: tuple[float | None, ...]
    e2e: tuple[float | None, ...]
    output_tokens: tuple[int | None, ...]
    errors: dict[str, str] = {}
    """Position of a request that failed -> why."""


class LockedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt of the quality gate with its answer in each set; None: it failed."""

    id: str
    kind: str
    prompt: str
    texts: tuple[str | None, ...]


class LockedQuality(msgspec.Struct, frozen=True, kw_only=True):
    """Answers at temperature 0: of arm A two sets with a restart between them, of arm B one."""

    max_tokens: int
    concurrency: int
    prompts_sha256: str
    verdict: str
    because: str
    answers: tuple[LockedAnswer, ...]


class Lock(msgspec.Struct, frozen=True, kw_only=True):
    """kvlab.lock. `load`, `results`, `runs`, `quality` and `verdict` are absent when a plan was frozen unmeasured."""

    schema: Literal["kvlab/lock@1"] = "kvlab/lock@1"
    kvlab_version: str
    created: str
    measured: str | None
    """When the last run ended, UTC."""
    arm: Literal["a", "b"] | None
    label: str
    engine: LockedEngine
    model: LockedModel
    machine: Machine
    gpus: tuple[LockedGpu, ...] = ()
    ask: Ask
    flags: dict[str, str | None]
    left_out: tuple[str, ...] = ()
    """Settings that held a path or the name of a machine, of which only the end is kept."""
    plan: LockedPlan
    log: LockedLog | None = None
    load: LockedLoad | None = None
    results: tuple[Level, ...] = ()
    verdict: AbVerdict | None = None
    """Of the experiment: arm B against arm A."""
    design: Design | None = None
    """Blocks and stopping of the experiment; None: A B B A, as before kvlab kept it."""
    quality: LockedQuality | None = None
    runs: tuple[LockedRun, ...] = ()


def encode(lock: Lock) -> bytes:
    """The lock as it is written: `store.encode`, with each list of numbers on one line."""
    text = store.encode(lock).decode()
    return _FLAT.sub(lambda found: "[" + ", ".join(re.split(r",\s+", found[1])) + "]", text).encode()


def read(path: Path) -> Lock:
    """The lock at `path`, or in the folder of that name. Raises BadInput in one line."""
    if path.is_dir() and not (path / NAME).exists():
        raise BadInput(f"there is no {NAME} in {path}; kvlab freeze LAB -o {path} writes one")
    lock = store.read(path / NAME if path.is_dir() else path, Lock, "kvlab.lock")
    if (why := _damage(lock)) is not None:
        raise BadInput(f"{path} is damaged: {why}; take it from version control again, or freeze anew")
    return lock


def _damage(lock: Lock) -> str | None:
    """What makes the lock one that no kvlab wrote; None: nothing."""
    for run in lock.runs:
        if len({len(column) for column in (run.scheduled, run.ttft, run.tpot, run.e2e, run.output_tokens)}) > 1:
            return f"the columns of the run {run.block} have different lengths"
    sets = {len(one.texts) for one in lock.quality.answers} if lock.quality is not None else {1}
    return None if len(sets) == 1 and min(sets) > 0 else "its answers are not one or two whole sets"


def run_of(locked: LockedRun, arm: Literal["a", "b"]) -> Run:
    """A run as the comparison takes it."""
    columns = zip(locked.scheduled, locked.ttft, locked.tpot, locked.e2e, locked.output_tokens, strict=True)
    rows = tuple(
        RunRow(
            scheduled=scheduled,
            ttft=ttft,
            tpot=tpot,
            e2e=e2e,
            prompt_tokens=None,
            output_tokens=tokens,
            error=locked.errors.get(str(at)),
        )
        for at, (scheduled, ttft, tpot, e2e, tokens) in enumerate(columns)
    )
    return Run(
        block=locked.block,
        arm=arm,
        folder="",
        metrics=locked.metrics,
        completed=locked.completed,
        failed=locked.failed,
        rows=rows,
        samples=(),
        pool=locked.pool,
    )


def compared(before: Lock, after: Lock) -> tuple[Difference, ...]:
    """What differs between two locks: versions, machine, model, flags, plan and log, each under a name of its own."""
    found = differences(_facts(before), _facts(after))
    found += differences(dict(before.flags), dict(after.flags), "flag ")
    found += differences(before.plan.lines, after.plan.lines, "plan ")
    if before.log is not None and after.log is not None:
        found += differences(dict(before.log.seen), dict(after.log.seen), "log ")
    return found


def _facts(lock: Lock) -> dict[str, Value]:
    facts: dict[str, Value] = {
        "kvlab": lock.kvlab_version,
        "engine": lock.engine.name,
        "engine version": lock.engine.version,
        "model": lock.model.name,
        "model revision": lock.model.revision,
        "system": lock.machine.system,
        "processor": lock.machine.processor,
        "cores": lock.machine.cores,
        "GPUs": ", ".join(gpu.name for gpu in lock.gpus) or None,
        "driver": ", ".join(dict.fromkeys(gpu.driver for gpu in lock.gpus if gpu.driver)) or None,
        "GPU runtime": ", ".join(dict.fromkeys(gpu.runtime for gpu in lock.gpus if gpu.runtime)) or None,
    }
    for file in lock.model.files:
        facts[f"weights {file.name}"] = f"{file.bytes} bytes" + (f", sha256 {file.sha256}" if file.sha256 else "")
    return facts
