"""A against B of one engine: A B B A, a restart before every run, the same prompts in both arms, quality and prefix.

Every step is a file of the lab, so that an interrupted experiment goes on where it stopped. A restart empties the
cache: no run starts with what another left behind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from kvlab import engines, machine
from kvlab.core.check import Check
from kvlab.core.errors import ServerRefused
from kvlab.core.judge import judge
from kvlab.core.measure import MetricSample, PoolUse, RequestRow
from kvlab.core.plan import Plan
from kvlab.core.quality import Prefix, Quality
from kvlab.core.record import Ab, Arm, Record, Run, RunRow
from kvlab.lab import Lab
from kvlab.launch import DYING_SECONDS, Server, start
from kvlab.load.bench import BenchResult, BenchSpec, Prepared, prepare, result_file, save
from kvlab.load.runner import run_load
from kvlab.load.spec import LoadSpec, Progress
from kvlab.observe import read_log
from kvlab.preflight import check_settings, room_for_prefix
from kvlab.reasons import checked
from kvlab.settings import ORDER, ArmName, OnStep, Settings, Step


class Experiment:
    """Runs `settings` in a lab. `plans` holds the plan of each arm."""

    def __init__(self, settings: Settings, plans: dict[ArmName, Plan], lab: Lab, on_step: OnStep) -> None:
        self.settings = settings
        self.plans = plans
        self.lab = lab
        self._on_step = on_step
        self._steps = [name for block in range(len(ORDER)) for name, _ in self._block_steps(block)]
        self._at = Step(0, len(self._steps), "")

    def run(self, command: tuple[str, ...]) -> Record:
        """Every step that is not done yet, then the record. Raises KvlabError when an engine or a server fails."""
        sittings = self._sit_down()
        for block in range(len(ORDER)):
            self._run_block(block)
        self._tell("judging", len(self._steps))
        record = self._record(command, sittings)
        self.lab.save("ab.json", record.ab)
        self.lab.save("record.json", record)
        return record

    def _block_steps(self, block: int) -> list[tuple[str, Callable[[Server], None]]]:
        """The steps of one block as (file that marks it done, what to do with the running server)."""
        arm, settings = ORDER[block], self.settings
        steps: list[tuple[str, Callable[[Server], None]]] = [
            (f"{self._folder(block)}/run.json", lambda server: self._measure(block, server))
        ]
        answers = _answers_of(block)
        if settings.quality_tokens is not None and answers is not None:
            steps.append((answers, lambda server: self._answer(answers, server)))
        if settings.prefix_rounds is not None and block == ORDER.index("b"):
            steps.append(("prefix.json", lambda server: self._prefix(arm, server)))
        return steps

    def _run_block(self, block: int) -> None:
        arm = ORDER[block]
        left = [(name, step) for name, step in self._block_steps(block) if not self.lab.has(name)]
        if not left:
            return
        label = f"arm {arm.upper()}, block {block + 1} of {len(ORDER)}"
        self._tell(f"{label}: starting {engines.engine(self.plans[arm].engine.name).title}", self._number(left[0][0]))
        log = self.lab.path(f"{self._folder(block)}/engine.log")
        with start(self.plans[arm], log) as server:
            self.lab.once(f"check-{arm}.json", Check, lambda: checked(self.plans[arm], read_log(str(log))))
            for name, step in left:
                self._tell(f"{label}: {_what(name)}", self._number(name))
                try:
                    step(server)
                except ServerRefused as error:
                    raise server.died(DYING_SECONDS) or error from None

    def _measure(self, block: int, server: Server) -> None:
        arm, spec = ORDER[block], self._bench_spec()
        ready = self.lab.once("prompts.json", Prepared, lambda: prepare(server.url, spec, self._load_progress))
        result = run_load(
            server.url,
            ready.prompts,
            spec.load,
            warm_up=ready.warm_up,
            metrics=engines.metric_map(server.command.engine),
            progress=self._load_progress,
        )
        if gone := server.died(DYING_SECONDS if result.failed else 0):
            raise gone  # what was measured ends somewhere in the run: not a run to keep
        folder, plan = self._folder(block), self.plans[arm]
        samples = tuple(_with_ratio(sample, plan) for sample in result.samples)
        result = msgspec.structs.replace(result, samples=samples, pool=_with_peak(result.pool, samples))
        document = result_file(spec, ready, result)
        bench = BenchResult(metrics=document, rows=result.rows, pool=result.pool, samples=result.samples)
        save(bench, self.lab.path(f"{folder}/result.json"))
        run = Run(
            block=block,
            arm=arm,
            folder=folder,
            metrics={name: float(value) for name, value in document.items() if isinstance(value, int | float)},
            completed=len(result.rows) - result.failed,
            failed=result.failed,
            rows=tuple(_run_row(row) for row in result.rows),
            samples=result.samples,
            pool=result.pool,
        )
        self.lab.save(f"{folder}/run.json", run)

    def _bench_spec(self) -> BenchSpec:
        settings, load = self.settings, self.settings.load
        return BenchSpec(
            dataset=settings.dataset,
            load=LoadSpec(concurrency=load.concurrency, rate=load.rate, seed=load.seed),
            num_prompts=load.prompts,
            engine=self.plans["a"].engine.name,
            warm_up=settings.warm_up,
        )

    def _answer(self, name: str, server: Server) -> None:
        from kvlab import prompts
        from kvlab.answers import collect_answers

        settings = self.settings
        answers = collect_answers(
            server.url,
            prompts.load(None if settings.quality_prompts is None else Path(settings.quality_prompts)),
            max_tokens=settings.quality_tokens or 0,
            concurrency=settings.quality_concurrency,
            progress=self._count_progress,
        )
        self.lab.save(name, answers)

    def _prefix(self, arm: ArmName, server: Server) -> None:
        from kvlab.sharing import run_prefix

        found = run_prefix(
            server.url,
            self.plans[arm].engine.name,
            rounds=self.settings.prefix_rounds or 0,
            prefix_tokens=min(self.settings.prefix_tokens, room_for_prefix(self.plans[arm].kv.context or 0)),
            progress=self._count_progress,
        )
        self.lab.save("prefix.json", found)

    def _sit_down(self) -> tuple[str, ...]:
        """When each sitting of this experiment began, this one last; one that has nothing left to do is none."""
        known = self.lab.load(_SITTINGS, tuple[str, ...]) if self.lab.has(_SITTINGS) else ()
        if known and all(self.lab.has(name) for name in self._steps):
            return known
        sittings = (*known, machine.now())
        self.lab.save(_SITTINGS, sittings)
        return sittings

    def _record(self, command: tuple[str, ...], sittings: tuple[str, ...]) -> Record:
        from kvlab import __version__

        runs = tuple(self.lab.load(f"{self._folder(block)}/run.json", Run) for block in range(len(ORDER)))
        quality = self._judge_quality()
        prefix = self.lab.load("prefix.json", Prefix) if self.lab.has("prefix.json") else None
        rows, pool, verdict = judge(runs, quality, prefix, seed=self.settings.load.seed)
        if len(sittings) > 1:
            verdict = msgspec.structs.replace(verdict, because=(*verdict.because, _resumed(sittings)))
        arms = {arm: self._arm(arm) for arm in ("a", "b")}
        ab = Ab(arms=arms, performance=rows, quality=quality, prefix=prefix, pool=pool, verdict=verdict)
        return Record(
            title=self.settings.title,
            created=sittings[0],
            sittings=sittings,
            finished=machine.now(),
            kvlab_version=__version__,
            command=command,
            machine=machine.describe(),
            load=self.settings.load,
            runs=runs,
            ab=ab,
        )

    def _judge_quality(self) -> Quality | None:
        if self.settings.quality_tokens is None:
            return None
        from kvlab.answers import Answer, judge_quality

        first, candidate, second = (self.lab.load(name, tuple[Answer, ...]) for name in _ANSWERS)
        found = judge_quality(
            first, second, candidate, max_tokens=self.settings.quality_tokens, seed=self.settings.load.seed
        )
        self.lab.save("quality.json", found)
        return found

    def _arm(self, arm: Literal["a", "b"]) -> Arm:
        plan = self.plans[arm]
        return Arm(label=plan.kv.dtype, plan=plan, check=self.lab.load(f"check-{arm}.json", Check))

    def _folder(self, block: int) -> str:
        return f"runs/{block + 1}-{ORDER[block]}"

    def _number(self, name: str) -> int:
        return self._steps.index(name)

    def _tell(self, text: str, number: int) -> None:
        self._at = Step(number, len(self._steps), text)
        self._on_step(self._at)

    def _load_progress(self, progress: Progress) -> None:
        self._count_progress(progress.done, progress.total, progress.text)

    def _count_progress(self, done: int, total: int, phase: str = "") -> None:
        self._on_step(msgspec.structs.replace(self._at, done=done, total=total, phase=phase))


_SITTINGS = "sittings.json"
_ANSWERS = ("answers-a1.json", "answers-b.json", "answers-a2.json")


def _answers_of(block: int) -> str | None:
    """Arm A answers in its first and in its last block, with a restart between; arm B once."""
    return {0: _ANSWERS[0], ORDER.index("b"): _ANSWERS[1], len(ORDER) - 1: _ANSWERS[2]}.get(block)


def _what(name: str) -> str:
    if name.startswith("answers"):
        return "answers for the quality gate"
    return "shared prefixes" if name.startswith("prefix") else "load"


def _may_change(lab: Lab) -> frozenset[str]:
    """Settings that no finished step rests on: a gate or the prefix step can be added, changed or left out later."""
    free = set()
    if not any(lab.has(name) for name in _ANSWERS):
        free |= {"quality_prompts", "quality_tokens", "quality_concurrency"}
    if not lab.has("prefix.json"):
        free |= {"prefix_rounds", "prefix_tokens"}
    return frozenset(free)


def _resumed(sittings: tuple[str, ...]) -> str:
    return (
        f"the experiment was interrupted and taken up again {len(sittings) - 1} times (sittings began"
        f" {', '.join(sittings)}): what changed on the machine in between falls on some runs and not on others"
    ).replace(" 1 times", " once")


def _run_row(row: RequestRow) -> RunRow:
    return RunRow(
        scheduled=row.scheduled,
        ttft=row.ttft,
        tpot=row.tpot,
        e2e=row.e2e,
        prompt_tokens=row.prompt_tokens,
        output_tokens=row.output_tokens,
        error=row.error,
    )


def _with_ratio(sample: MetricSample, plan: Plan) -> MetricSample:
    """Cache use as a share of the planned pool, for an engine that counts tokens and has no such gauge."""
    used = sample.values.get("kv_used_tokens")
    if used is None or "kv_used_ratio" in sample.values or plan.capacity is None:
        return sample
    return MetricSample(sample.at, sample.values | {"kv_used_ratio": used / plan.capacity.tokens})


def _with_peak(pool: PoolUse, samples: tuple[MetricSample, ...]) -> PoolUse:
    ratios = [sample.values["kv_used_ratio"] for sample in samples if "kv_used_ratio" in sample.values]
    return msgspec.structs.replace(pool, peak_kv_used=max(ratios)) if ratios else pool


def run_experiment(
    settings: Settings, plans: dict[ArmName, Plan], folder: Path, *, command: tuple[str, ...], on_step: OnStep
) -> Record:
    """Runs, or takes up, the experiment in `folder`: its record, in which the report is not written yet.

    Raises BadInput or EngineFailed for what `check_settings` refuses, and BadInput when the folder is taken.
    """
    check_settings(settings, plans.values())
    lab = Lab(folder)
    with lab.claimed(settings, may_change=_may_change(lab)):
        for arm, plan in plans.items():
            lab.save(f"plan-{arm}.json", plan)
        return Experiment(settings, plans, lab, on_step).run(command)
