"""A lock made from a finished lab, or from a plan that nobody has measured."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

import msgspec

from kvlab import __version__, gates, machine
from kvlab.answers import Answer
from kvlab.core.check import Check
from kvlab.core.errors import BadInput, KvlabError
from kvlab.core.gate import Tag
from kvlab.core.level import levels
from kvlab.core.masking import masked
from kvlab.core.nameless import nameless
from kvlab.core.plan import Ask, Plan
from kvlab.core.plan_lines import digest, flags, lines
from kvlab.core.record import Load, Record, Run
from kvlab.detect import local_gpus
from kvlab.lab import RECORD, SPEC, Lab
from kvlab.load.bench import Prepared
from kvlab.load.datasets import Dataset, PromptsFile, RequestLog, ShareGpt, TraceFile
from kvlab.load.spec import Prompt
from kvlab.lockfile import (
    Lock,
    LockedAnswer,
    LockedEngine,
    LockedGpu,
    LockedLoad,
    LockedLog,
    LockedPlan,
    LockedQuality,
    LockedRun,
)
from kvlab.measuring import load_spec
from kvlab.observe import read_log
from kvlab.reasons.replan import as_asked
from kvlab.resuming import refuse_unfinished, settings_of
from kvlab.settings import ArmName, Settings
from kvlab.weightfiles import OnBytes, model

OF_A_FILE = (PromptsFile, ShareGpt, RequestLog, TraceFile)
"""Data sets whose prompts are in a file of the user."""
_SETS: dict[ArmName, tuple[Tag, ...]] = {"a": ("a1", "a2"), "b": ("b",)}
_AGREEMENT = "agreement"
"""The part of the quality gate that keeps answers."""


def of_plan(plan: Plan, place: str | None = None, progress: OnBytes | None = None) -> Lock:
    """The lock of a plan that nobody has measured. `place` is where its model is, when that is not in its command."""
    ask, left_out = shared(as_asked(plan))
    named = lines(plan)
    return Lock(
        kvlab_version=__version__,
        created=machine.now(),
        measured=None,
        arm=None,
        label=plan.kv.dtype,
        engine=LockedEngine(name=plan.engine.name, planned=plan.engine.version, version=None),
        model=model(plan.source, place or model_word(plan), progress),
        machine=machine.describe(),
        gpus=gpus_here(),
        ask=ask,
        flags=_flags(plan),
        left_out=left_out,
        plan=LockedPlan(digest=digest(named), lines=named),
    )


def of_lab(folder: Path, arm: ArmName | None = None, progress: OnBytes | None = None) -> tuple[Lock, Plan]:
    """The lock of one arm of a finished lab, and its plan. None: arm B if it was better, else arm A.

    Raises BadInput for a folder that is no lab, a lab that is not finished, and one that holds no runs of the arm.
    """
    lab = Lab(folder)
    if not lab.has(SPEC):
        raise BadInput(f"{folder} is no lab: there is no {SPEC} in it; give the folder of kvlab ab, or --plan FILE")
    settings = settings_of(folder)
    refuse_unfinished(folder)
    record = lab.load(RECORD, Record)
    if record.ab is None:
        raise BadInput(f"{folder} holds no judged experiment; give the folder of kvlab ab, or --plan FILE")
    chosen: ArmName = arm or ("b" if record.ab.verdict.code == "better" else "a")
    mine = [run for run in record.runs if run.arm == chosen]
    if not mine:
        raise BadInput(f"{folder} holds no run of arm {chosen.upper()}; name the other arm with --arm")
    plan = record.ab.arms[chosen].plan
    lock = of_plan(plan, settings.source, progress)
    ask, left_out = shared(settings.b if chosen == "b" else settings.a)
    others = [run for run in record.runs if run.arm != chosen]
    version = _version(lab, mine, plan.engine.name)
    found = msgspec.structs.replace(
        lock,
        measured=record.finished,
        arm=chosen,
        label=record.ab.arms[chosen].label,
        ask=ask,
        left_out=left_out,
        engine=msgspec.structs.replace(lock.engine, version=version),
        machine=record.machine,
        log=None if (check := record.ab.arms[chosen].check) is None else locked_log(check),
        load=_load(lab, settings, record),
        results=levels(mine, others, seed=settings.load.seed),
        verdict=record.ab.verdict,
        design=record.ab.design,
        quality=_quality(lab, settings, record, chosen),
        runs=tuple(locked_run(run) for run in mine),
    )
    return found, plan


def shared(ask: Ask) -> tuple[Ask, tuple[str, ...]]:
    """A request without paths and hosts, and the names of the settings that lost theirs."""
    arguments = tuple((name, nameless(value)) for name, value in ask.engine_args)
    left_out = [name for (name, value), (_, kept) in zip(ask.engine_args, arguments, strict=True) if kept != value]
    folder = None if ask.offload_dir is None else nameless(ask.offload_dir)
    left_out += ["offload-dir"] if folder != ask.offload_dir else []
    return msgspec.structs.replace(ask, engine_args=arguments, offload_dir=folder), tuple(left_out)


def gpus_here() -> tuple[LockedGpu, ...]:
    """The GPUs of this machine with their driver, as it states them."""
    return tuple(
        LockedGpu(name=gpu.name, memory_bytes=gpu.total_bytes, driver=gpu.driver, runtime=gpu.runtime)
        for gpu in local_gpus()
    )


def locked_log(check: Check) -> LockedLog:
    """What the log said, beside the plan."""
    return LockedLog(
        agreed=sum(row.verdict == "agrees" for row in check.rows),
        differed=tuple(row.name for row in check.rows if row.verdict == "differs"),
        seen={row.name: row.seen for row in check.rows if row.seen is not None},
    )


def locked_run(run: Run) -> LockedRun:
    """A run's numbers, to the microsecond."""
    return LockedRun(
        block=run.block,
        metrics={name: round(value, 6) for name, value in run.metrics.items()},
        completed=run.completed,
        failed=run.failed,
        pool=run.pool,
        scheduled=tuple(round(row.scheduled, 6) for row in run.rows),
        ttft=tuple(_micro(row.ttft) for row in run.rows),
        tpot=tuple(_micro(row.tpot) for row in run.rows),
        e2e=tuple(_micro(row.e2e) for row in run.rows),
        output_tokens=tuple(row.output_tokens for row in run.rows),
        errors={str(at): nameless(masked(row.error)) for at, row in enumerate(run.rows) if row.error is not None},
    )


def _micro(value: float | None) -> float | None:
    return None if value is None else round(value, 6)


def sent_hash(prompts: Sequence[Prompt]) -> str:
    """SHA-256 of what is sent, in order: of texts, messages, token ids and lengths, which no kvlab will name anew."""
    sent = [(one.text, one.messages, one.token_ids, one.output_tokens) for one in prompts]
    return hashlib.sha256(msgspec.json.encode(sent)).hexdigest()


def times_hash(ready: Prepared, load: Load) -> str | None:
    """SHA-256 of the data set's times, where the load follows them."""
    if load_spec(load).arrivals is None or ready.arrivals is None:
        return None
    return hashlib.sha256(msgspec.json.encode([round(time, 6) for time in ready.arrivals])).hexdigest()


def prompts_hash(prompts: Sequence[tuple[str, str]]) -> str:
    """SHA-256 of the quality gate's prompts, by id and text."""
    return hashlib.sha256(msgspec.json.encode(prompts)).hexdigest()


def _version(lab: Lab, runs: Sequence[Run], engine: str) -> str | None:
    """The engine's version by the log of the last run; None where no line states it."""
    for run in reversed(runs):
        try:
            return read_log(str(lab.folder / run.folder / "engine.log"), engine).version
        except KvlabError:
            continue
    return None


def _load(lab: Lab, settings: Settings, record: Record) -> LockedLoad:
    dataset: Dataset = settings.dataset
    if isinstance(dataset, OF_A_FILE):
        dataset = msgspec.structs.replace(dataset, path=Path(dataset.path).name)
    ready = lab.load("prompts.json", Prepared)
    return LockedLoad(
        load=settings.load,
        dataset=dataset,
        warm_up=settings.warm_up,
        prompts_sha256=sent_hash(ready.prompts),
        times_sha256=times_hash(ready, settings.load),
        order=" ".join(run.arm for run in record.runs),
    )


def _quality(lab: Lab, settings: Settings, record: Record, arm: ArmName) -> LockedQuality | None:
    """The arm's answers, where the experiment asked for them."""
    quality = record.ab.quality if record.ab is not None else None
    sets = [found for tag in _SETS[arm] if (found := _answers(lab, tag))]
    if quality is None or settings.quality_tokens is None or len(sets) < len(_SETS[arm]):
        return None
    return LockedQuality(
        max_tokens=settings.quality_tokens,
        concurrency=settings.quality_concurrency,
        prompts_sha256=prompts_hash([(answer.prompt_id, answer.prompt) for answer in sets[0]]),
        verdict=quality.verdict,
        because=quality.because,
        answers=tuple(
            LockedAnswer(
                id=one[0].prompt_id, kind=one[0].kind, prompt=one[0].prompt, texts=tuple(answer.text for answer in one)
            )
            for one in zip(*sets, strict=True)
        ),
    )


def _answers(lab: Lab, tag: Tag) -> tuple[Answer, ...]:
    """A set of answers; until the gate had parts, it lay in a file of its own. Empty: there is none."""
    earlier = f"answers-{tag}.json"
    if lab.has(gates.file_of(_AGREEMENT, tag)):
        found: tuple[Answer, ...] | None = gates.evidence(_AGREEMENT, tag, lab)
        return found or ()
    return lab.load(earlier, tuple[Answer, ...]) if lab.has(earlier) else ()


def model_word(plan: Plan) -> str | None:
    """The word of the command that is a local model; None for one of the Hub."""
    if plan.source.kind == "hub":
        return None
    name = plan.source.name
    return next((word for word in plan.launch.argv[1:] if os.path.basename(word.rstrip("/")) == name), None)


def _flags(plan: Plan) -> dict[str, str | None]:
    word = model_word(plan)
    return {
        name: plan.source.name if word and value == nameless(word) else value for name, value in flags(plan).items()
    }
