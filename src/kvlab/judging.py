"""From the files of a lab to its record: the runs that are there, what every look said, the forecast and its score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kvlab import diagnosing, gate, machine
from kvlab.core.check import Check
from kvlab.core.diagnosis import Case, Look
from kvlab.core.errors import KvlabError
from kvlab.core.forecast import forecast, scored
from kvlab.core.gate import GateAsk, GateRule
from kvlab.core.judge import judge, settled
from kvlab.core.labels import labels
from kvlab.core.plan import Plan
from kvlab.core.quality import Prefix, Quality
from kvlab.core.record import Ab, Arm, Design, Forecast, Record, Run
from kvlab.core.record import Look as LookBack
from kvlab.core.scrape import Reading
from kvlab.core.settle import more
from kvlab.lab import Lab
from kvlab.settings import ArmName, Settings, order

FORECAST = "forecast.json"
PREFIX = "prefix.json"
_FEW_LOOKS = 3
"""Scrapes of a run from which it is asked what limited the engine."""


def folder_of(run: int, arm: str) -> str:
    """Where a run's files lie, relative to the lab; runs count from 0."""
    return f"runs/{run + 1}-{arm}"


def run_file(run: int, arm: str) -> str:
    """The file whose presence says that a run is done."""
    return f"{folder_of(run, arm)}/run.json"


def blocks_done(lab: Lab, settings: Settings) -> int:
    """Blocks of which every run is done, from the first on."""
    done = [lab.has(run_file(run, arm)) for run, arm in enumerate(order(settings.blocks))]
    return next(
        (block for block in range(settings.blocks) if not all(done[4 * block : 4 * block + 4])), settings.blocks
    )


def runs_of(lab: Lab, blocks: int) -> tuple[Run, ...]:
    """The runs of the first `blocks` blocks. Raises BadInput for a file that is missing or damaged."""
    return tuple(lab.load(run_file(run, arm), Run) for run, arm in enumerate(order(blocks)))


def foretell(lab: Lab, plans: Mapping[ArmName, Plan], settings: Settings) -> tuple[Forecast, ...]:
    """The forecast, written down before the first run; one that is there already stands."""
    return lab.once(FORECAST, tuple[Forecast, ...], lambda: forecast(plans, settings.load))


def look(lab: Lab, settings: Settings, blocks: int) -> LookBack:
    """What the first `blocks` blocks say when somebody may stop after each."""
    rows, _, verdict = judge(runs_of(lab, blocks), None, None, seed=settings.load.seed, sequential=True)
    return LookBack(blocks=blocks, code=verdict.code, settled=settled(rows))


def gate_ask(settings: Settings) -> GateAsk:
    """The quality gate of an experiment, its rule as it stands before the first run."""
    return GateAsk(
        parts=settings.parts,
        prompts=settings.quality_prompts,
        max_tokens=settings.quality_tokens or 1,
        concurrency=settings.quality_concurrency,
        rule=GateRule(seed=settings.load.seed),
    )


def record(
    lab: Lab, settings: Settings, plans: Mapping[ArmName, Plan], looks: Sequence[LookBack], about: Record
) -> Record:
    """`about` with the runs of the lab and the verdict on them. Raises BadInput for a file that is damaged."""
    blocks = blocks_done(lab, settings)
    runs = runs_of(lab, blocks)
    quality = _quality(lab, settings)
    prefix = lab.load(PREFIX, Prefix) if lab.has(PREFIX) else None
    rows, pool, verdict = judge(runs, quality, prefix, seed=settings.load.seed, sequential=settings.sequential)
    sent = sum(run.completed + run.failed for run in runs)
    each = sent // max(len(runs), 1)
    wanted = None
    if verdict.code == "inconclusive" and not settled(rows):
        wanted = more(rows, blocks=blocks, prompts=each, sequential=settings.sequential)
    design = Design(
        order=" ".join(order(blocks)).upper(),
        blocks=blocks,
        most_blocks=settings.blocks,
        sequential=settings.sequential,
        looks=tuple(looks),
        requests=sent,
        requests_saved=4 * each * (settings.blocks - blocks),
        more=wanted,
    )
    because = (
        *verdict.because,
        *_limits(runs, plans),
        *_of_design(design),
        *_of_turns(settings),
        *_resumed(about.sittings),
    )
    foretold = scored(lab.load(FORECAST, tuple[Forecast, ...]) if lab.has(FORECAST) else (), runs)
    ab = Ab(
        arms=_arms(lab, settings, plans),
        performance=rows,
        quality=quality,
        prefix=prefix,
        pool=pool,
        verdict=msgspec.structs.replace(verdict, because=because),
        design=design,
        forecast=foretold,
    )
    return msgspec.structs.replace(about, runs=runs, ab=ab, finished=machine.now())


def _quality(lab: Lab, settings: Settings) -> Quality | None:
    if settings.quality_tokens is None:
        return None
    how = gate.How(ask=gate_ask(settings), lab=lab, on_step=lambda step: None)
    found = gate.judged(settings.parts, how)
    lab.save("quality.json", found)
    return found


def _arms(lab: Lab, settings: Settings, plans: Mapping[ArmName, Plan]) -> dict[str, Arm]:
    a, b = labels((settings.a, settings.b), (plans["a"], plans["b"]))
    named: tuple[tuple[ArmName, str], ...] = (("a", a), ("b", b))
    return {arm: Arm(label=label, plan=plans[arm], check=lab.load(f"check-{arm}.json", Check)) for arm, label in named}


def _limits(runs: Sequence[Run], plans: Mapping[ArmName, Plan]) -> list[str]:
    """What limited the engine of each arm in its last run, by the conditions of `kvlab diagnose`."""
    found = []
    for arm in ("a", "b"):
        last = next((run for run in reversed(runs) if run.arm == arm), None)
        if last is None or len(last.samples) < _FEW_LOOKS:
            continue
        engine = plans[arm].engine.name
        looks = tuple(Look(sample.at, Reading(engine=engine, values=sample.values)) for sample in last.samples)
        try:
            diagnosed = diagnosing.judge(Case(looks=looks, plan=diagnosing.planned(plans[arm])))
        except KvlabError:
            continue
        if diagnosed.verdict not in ("not_enough_evidence", "healthy", "idle"):
            found.append(
                f"arm {arm.upper()} was {diagnosed.verdict.replace('_', ' ')} ({diagnosed.confidence}):"
                f" {'; '.join(diagnosed.because[:2])}"
            )
    return found


def _of_design(design: Design) -> list[str]:
    found = []
    if design.sequential:
        ended = "settled" if design.blocks < design.most_blocks or design.more is None else "not settled"
        found.append(
            f"{ended} after {design.blocks} of at most {design.most_blocks} blocks: {design.requests:,} requests sent,"
            f" {design.requests_saved:,} saved; intervals and evidence hold at every look"
        )
    if design.more is not None:
        found.append(design.more.text)
    return found


def _of_turns(settings: Settings) -> list[str]:
    if settings.load.turns == "first":
        return []
    return [
        "the turns of one conversation are drawn as requests of their own: where they are alike, intervals of latencies"
        " over them are too narrow"
    ]


def _resumed(sittings: tuple[str, ...]) -> list[str]:
    if len(sittings) < 2:
        return []
    times = "once" if len(sittings) == 2 else f"{len(sittings) - 1} times"
    return [
        f"the experiment was interrupted and taken up again {times} (sittings began {', '.join(sittings)}): what"
        " changed on the machine in between falls on some runs and not on others"
    ]
