"""The runs of a verify: the frozen configuration started afresh for each, with the frozen load and prompts."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from kvlab import engines
from kvlab.answers import Answer, collect_answers, judge_quality
from kvlab.core.check import Check
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.quality import Quality, QualityPrompt
from kvlab.core.record import Run
from kvlab.freezing import sent_hash, times_hash
from kvlab.lab import Lab
from kvlab.launch import DYING_SECONDS, Server, start
from kvlab.load.bench import BenchSpec, Prepared, prepare
from kvlab.load.spec import Progress
from kvlab.lockfile import Lock, LockedQuality
from kvlab.measuring import Placed, load_spec, measured
from kvlab.observe import read_log
from kvlab.reasons import checked
from kvlab.refit import Refit
from kvlab.settings import OnStep, Step


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The log of the first start against the plan, and the engine's version by it."""

    check: Check
    version: str | None


class Repeated(NamedTuple):
    """What the sessions gave: runs (as arm B), sets of answers, and the log against the plan."""

    runs: tuple[Run, ...]
    answers: tuple[tuple[Answer, ...], ...]
    check: Check
    version: str | None
    prompts_sha256: str | None
    times_sha256: str | None


class Session:
    """Sessions of one verify: each starts the engine once, for a load and, in some of them, answers."""

    def __init__(self, lock: Lock, again: Refit, lab: Lab, on_step: OnStep) -> None:
        self._lock, self._again, self._lab, self._on_step = lock, again, lab, on_step
        self._at = Step(0, 1, "")

    def run(self, runs: int) -> Repeated:
        """Every session that is not done yet; what all of them gave. Raises KvlabError as an experiment does."""
        loads = runs if self._lock.load is not None else 0
        sets = self._sets()
        count = max(loads, sets, 1)
        for number in range(count):
            self._session(number, count, load=number < loads, answers=number < sets)
        lab, locked = self._lab, self._lock.load
        seen = lab.load("seen.json", Seen)
        ready = lab.load("prompts.json", Prepared) if loads else None
        return Repeated(
            runs=tuple(lab.load(f"runs/{number + 1}/run.json", Run) for number in range(loads)),
            answers=tuple(lab.load(_answers(number), tuple[Answer, ...]) for number in range(sets)),
            check=seen.check,
            version=seen.version,
            prompts_sha256=None if ready is None else sent_hash(ready.prompts),
            times_sha256=None if ready is None or locked is None else times_hash(ready, locked.load),
        )

    def _sets(self) -> int:
        """Sets of answers that are needed: with one frozen set, two new ones show how far the engine repeats itself."""
        quality = self._lock.quality
        return 0 if quality is None else 1 if len(quality.answers[0].texts) > 1 else 2

    def _session(self, number: int, count: int, *, load: bool, answers: bool) -> None:
        folder, lab = f"runs/{number + 1}", self._lab
        todo = [name for name, wanted in ((f"{folder}/run.json", load), (_answers(number), answers)) if wanted]
        if all(lab.has(name) for name in (*todo, "seen.json")):
            return
        plan = self._again.plan
        label = f"run {number + 1} of {count}"
        self._tell(f"{label}: starting {engines.engine(plan.engine.name).title}", number, count)
        log = lab.path(f"{folder}/engine.log")
        with start(plan, log) as server:
            seen = self._seen(str(log))
            if (first := lab.once("seen.json", Seen, lambda: seen)).version != seen.version:
                raise BadInput(
                    f"the engine is {seen.version} now and was {first.version} in the first run of this verify; choose"
                    " another --lab"
                )
            try:
                if load and not lab.has(f"{folder}/run.json"):
                    self._tell(f"{label}: load", number, count)
                    self._measure(number, folder, server)
                if answers and not lab.has(_answers(number)):
                    self._tell(f"{label}: answers", number, count)
                    self._answer(number, server)
            except ServerRefused as error:
                raise server.died(DYING_SECONDS) or error from None

    def _seen(self, log: str) -> Seen:
        observation = read_log(log, self._again.plan.engine.name)
        return Seen(check=checked(self._again.plan, observation), version=observation.version)

    def _measure(self, number: int, folder: str, server: Server) -> None:
        locked = self._lock.load
        assert locked is not None  # asked only for what was measured
        assert self._again.dataset is not None
        spec = BenchSpec(
            dataset=self._again.dataset,
            load=load_spec(locked.load),
            num_prompts=locked.load.prompts,
            engine=self._again.plan.engine.name,
            warm_up=locked.warm_up,
        )
        ready = self._lab.once("prompts.json", Prepared, lambda: prepare(server.url, spec, self._progress))
        # After the frozen ones: runs are compared in the order in which they were made.
        block = max((run.block for run in self._lock.runs), default=-1) + 1 + number
        placed = Placed(block=block, arm="b", folder=folder)
        run = measured(server, ready, spec, self._again.plan, (self._lab, placed), self._progress)
        self._lab.save(f"{folder}/run.json", run)

    def _answer(self, number: int, server: Server) -> None:
        quality = self._lock.quality
        assert quality is not None  # asked only for what was frozen
        answers = collect_answers(
            server.url,
            [QualityPrompt(one.id, one.kind, one.prompt) for one in quality.answers],
            max_tokens=quality.max_tokens,
            concurrency=quality.concurrency,
            progress=self._count,
        )
        self._lab.save(_answers(number), answers)

    def _tell(self, text: str, number: int, count: int) -> None:
        self._at = Step(number, count, text)
        self._on_step(self._at)

    def _progress(self, progress: Progress) -> None:
        self._count(progress.done, progress.total, progress.text)

    def _count(self, done: int, total: int, phase: str = "") -> None:
        self._on_step(msgspec.structs.replace(self._at, done=done, total=total, phase=phase))


def _answers(number: int) -> str:
    return f"answers-{number + 1}.json"


def agreeing(locked: LockedQuality, answers: tuple[tuple[Answer, ...], ...], seed: int) -> Quality:
    """The new answers against the frozen ones, beside how far the same configuration agrees with itself.

    Two frozen sets give that floor; with one, the two new sets give it, and the frozen set is what is compared.
    """
    frozen = [
        tuple(Answer(prompt_id=one.id, kind=one.kind, prompt=one.prompt, text=one.texts[at]) for one in locked.answers)
        for at in range(len(locked.answers[0].texts))
    ]
    first, second, other = (
        (frozen[0], frozen[1], answers[0]) if len(frozen) > 1 else (answers[0], answers[1], frozen[0])
    )
    return judge_quality(first, second, other, max_tokens=locked.max_tokens, seed=seed)
