"""A against B of one engine: A B B A, a restart before every run, the same prompts in both arms, quality and prefix.

Every step is a file of the lab, so that an interrupted experiment goes on where it stopped. A restart empties the
cache: no run starts with what another left behind. Warm-up: the first requests of a run are sent at the run's own
concurrency, share no prefix with the measured ones, and are never counted (`Settings.warm_up`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from kvlab import engines, gates, judging, machine
from kvlab.core.check import Check
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.gate import Side, Tag
from kvlab.core.plan import Plan
from kvlab.core.record import Look, Record
from kvlab.lab import RECORD, Lab
from kvlab.launch import DYING_SECONDS, Server, start
from kvlab.load.bench import BenchSpec, Prepared, prepare
from kvlab.load.spec import Progress
from kvlab.measuring import Placed, load_spec, measured
from kvlab.observe import read_log
from kvlab.preflight import check_settings, room_for_prefix
from kvlab.reasons import checked
from kvlab.settings import ArmName, OnStep, Settings, Step, order

_SITTINGS = "sittings.json"
_GATE: dict[int, Tag] = {0: "a1", 1: "b", 3: "a2"}
"""Runs of the first block after which the quality gate collects: arm A twice, with a restart between, and B once."""
_PREFIX_RUN = 1


class Experiment:
    """Runs `settings` in a lab. `plans` holds the plan of each arm."""

    def __init__(self, settings: Settings, plans: dict[ArmName, Plan], lab: Lab, on_step: OnStep) -> None:
        self.settings = settings
        self.plans = plans
        self.lab = lab
        self._on_step = on_step
        self._order = order(settings.blocks)
        self._steps = [name for run in range(len(self._order)) for name, _ in self._run_steps(run)]
        self._at = Step(0, len(self._steps), "")

    def run(self, command: tuple[str, ...]) -> Record:
        """Every step that is not done yet, then the record. Raises KvlabError when an engine or a server fails."""
        sittings = self._sit_down()
        judging.foretell(self.lab, self.plans, self.settings)
        looks = list[Look]()
        for block in range(self.settings.blocks):
            for run in range(4 * block, 4 * block + 4):
                self._run(run)
            if self.settings.sequential:
                looks.append(judging.look(self.lab, self.settings, block + 1))
                if looks[-1].settled:
                    break
        self._tell("judging", len(self._steps))
        record = judging.record(self.lab, self.settings, self.plans, looks, self._about(command, sittings))
        self.lab.save("ab.json", record.ab)
        self.lab.save(RECORD, record)
        return record

    def _run_steps(self, run: int) -> list[tuple[str, Callable[[Server], None]]]:
        """The steps of one run as (file that marks it done, what to do with the running server)."""
        arm, settings = self._order[run], self.settings
        steps: list[tuple[str, Callable[[Server], None]]] = [
            (judging.run_file(run, arm), lambda server: self._measure(run, server))
        ]
        tag = _GATE.get(run)
        if settings.quality_tokens is not None and tag is not None:
            steps += [(gates.file_of(part, tag), self._collecting(part, tag)) for part in settings.parts]
        if settings.prefix_rounds is not None and run == _PREFIX_RUN:
            steps.append((judging.PREFIX, lambda server: self._prefix(arm, server)))
        return steps

    def _run(self, run: int) -> None:
        arm = self._order[run]
        left = [(name, step) for name, step in self._run_steps(run) if not self.lab.has(name)]
        if not left:
            return
        label = f"arm {arm.upper()}, run {run + 1} of {'at most ' * self.settings.sequential}{len(self._order)}"
        self._tell(f"{label}: starting {engines.engine(self.plans[arm].engine.name).title}", self._number(left[0][0]))
        log = self.lab.path(f"{judging.folder_of(run, arm)}/engine.log")
        with start(self.plans[arm], log) as server:
            self.lab.once(f"check-{arm}.json", Check, lambda: checked(self.plans[arm], read_log(str(log))))
            for name, step in left:
                self._tell(f"{label}: {_what(name)}", self._number(name))
                try:
                    step(server)
                except ServerRefused as error:
                    raise server.died(DYING_SECONDS) or error from None

    def _measure(self, number: int, server: Server) -> None:
        arm, spec = self._order[number], self._bench_spec()
        ready = self.lab.once("prompts.json", Prepared, lambda: prepare(server.url, spec, self._load_progress))
        placed = Placed(block=number, arm=arm, folder=judging.folder_of(number, arm))
        run = measured(server, ready, spec, self.plans[arm], (self.lab, placed), self._load_progress)
        self.lab.save(judging.run_file(number, arm), run)

    def _bench_spec(self) -> BenchSpec:
        settings, load = self.settings, self.settings.load
        return BenchSpec(
            dataset=settings.dataset,
            load=load_spec(load),
            num_prompts=load.prompts,
            engine=self.plans["a"].engine.name,
            warm_up=settings.warm_up,
        )

    def _collecting(self, part: str, tag: Tag) -> Callable[[Server], None]:
        ask = judging.gate_ask(self.settings)
        contexts = [plan.kv.context for plan in self.plans.values() if plan.kv.context is not None]
        engine = self.plans["b" if tag == "b" else "a"].engine.name

        def collect(server: Server) -> None:
            side = Side(url=server.url, engine=engine, context=min(contexts, default=None), options=ask.options)
            gates.collect((part,), tag, side, self.lab, lambda title, done, total: self._count_progress(done, total))

        return collect

    def _prefix(self, arm: ArmName, server: Server) -> None:
        from kvlab.sharing import run_prefix

        found = run_prefix(
            server.url,
            self.plans[arm].engine.name,
            rounds=self.settings.prefix_rounds or 0,
            prefix_tokens=min(self.settings.prefix_tokens, room_for_prefix(self.plans[arm].kv.context or 0)),
            progress=self._count_progress,
        )
        self.lab.save(judging.PREFIX, found)

    def _sit_down(self) -> tuple[str, ...]:
        """When each sitting of this experiment began, this one last; one that has nothing left to do is none."""
        known = self.lab.load(_SITTINGS, tuple[str, ...]) if self.lab.has(_SITTINGS) else ()
        if known and all(self.lab.has(name) for name in self._steps):
            return known
        sittings = (*known, machine.now())
        self.lab.save(_SITTINGS, sittings)
        return sittings

    def _about(self, command: tuple[str, ...], sittings: tuple[str, ...]) -> Record:
        from kvlab import __version__

        return Record(
            title=self.settings.title,
            created=sittings[0],
            sittings=sittings,
            finished=None,
            kvlab_version=__version__,
            command=command,
            machine=machine.describe(),
            load=self.settings.load,
            runs=(),
            ab=None,
        )

    def _number(self, name: str) -> int:
        return self._steps.index(name)

    def _tell(self, text: str, number: int) -> None:
        self._at = Step(number, len(self._steps), text)
        self._on_step(self._at)

    def _load_progress(self, progress: Progress) -> None:
        self._count_progress(progress.done, progress.total, progress.text)

    def _count_progress(self, done: int, total: int, phase: str = "") -> None:
        self._on_step(msgspec.structs.replace(self._at, done=done, total=total, phase=phase))


def _what(name: str) -> str:
    if name.startswith("gate/"):
        return "quality gate"
    return "shared prefixes" if name == judging.PREFIX else "load"


def _may_change(lab: Lab) -> frozenset[str]:
    """Settings that no finished step rests on: a gate, the prefix step and blocks can be added or left out later."""
    free = {"blocks", "sequential"}
    if not any(lab.has(gates.file_of(part, tag)) for part in gates.names() for tag in _GATE.values()):
        free |= {"quality_prompts", "quality_tokens", "quality_concurrency", "parts"}
    if not lab.has(judging.PREFIX):
        free |= {"prefix_rounds", "prefix_tokens"}
    return frozenset(free)


def _refuse_peeking(settings: Settings, lab: Lab) -> None:
    """Raises BadInput for blocks that are added to a verdict that was read, as if they had been asked for before."""
    if settings.sequential or not lab.has(RECORD):
        return
    known = lab.load(RECORD, Record)
    done = len(known.runs) // 4
    if known.ab is not None and settings.blocks != done:
        raise BadInput(
            f"{lab.folder} holds a verdict on {done} block{'s' * (done > 1)}; more blocks after reading it need"
            f" intervals that allow for looking: give --sequential --blocks {max(settings.blocks, done + 1)}, or"
            " another --lab"
        )


def run_experiment(
    settings: Settings, plans: dict[ArmName, Plan], folder: Path, *, command: tuple[str, ...], on_step: OnStep
) -> Record:
    """Runs, or takes up, the experiment in `folder`: its record, in which the report is not written yet.

    Raises BadInput or EngineFailed for what `check_settings` refuses, and BadInput when the folder is taken.
    """
    load_spec(settings.load)  # one that contradicts itself is refused before an engine starts
    check_settings(settings, plans.values())
    lab = Lab(folder)
    _refuse_peeking(settings, lab)
    with lab.claimed(settings, may_change=_may_change(lab)):
        for arm, plan in plans.items():
            lab.save(f"plan-{arm}.json", plan)
        return Experiment(settings, plans, lab, on_step).run(command)
