"""The parts of the quality gate: one file each. A file's name is its registration.

`collect` runs parts on a server that serves and leaves their evidence in a lab; `judged` reads it back and judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from kvlab import engines, variants
from kvlab.core.errors import BadInput, nearest
from kvlab.core.gate import TAGS, CannotRun, GateOptions, GateRule, Part, PartFinding, PartInfo, PartList, Side, Tag
from kvlab.lab import Lab


class _Collected(msgspec.Struct, frozen=True, kw_only=True):
    """A lab file: the evidence of one part from one server, or why there is none."""

    part: str
    tag: Tag
    why: str | None = None
    evidence: Any = None


class Tell(Protocol):
    """Is told which part runs, and how far it is."""

    def __call__(self, title: str, done: int, total: int) -> None: ...


def names() -> tuple[str, ...]:
    """Names of the parts as `--parts` takes them, sorted."""
    return tuple(name.replace("_", "-") for name in variants.names(__name__))


def part(name: str) -> Part[Any]:
    """The part of that name. Raises BadInput naming the nearest one when there is none."""
    if name not in names():
        raise BadInput(f"no part of the quality gate is called {name!r}; {nearest(name, names())}")
    return variants.one(f"{__name__}.{name.replace('-', '_')}", Part)


def parts() -> dict[str, Part[Any]]:
    """Every part by name."""
    return {name: part(name) for name in names()}


def listed() -> PartList:
    """Every part with the engines that can run it, and the rule by default."""
    found = []
    for chosen in parts().values():
        told = {engine: chosen.lacks(engine, GateOptions()) for engine in engines.names()}
        found.append(
            PartInfo(
                name=chosen.name,
                title=chosen.title,
                needs=chosen.needs,
                engines=tuple(engine for engine, why in told.items() if why is None),
                lacks={engine: why for engine, why in told.items() if why is not None},
            )
        )
    return PartList(parts=tuple(found), rule=GateRule())


def lacking(asked: Sequence[str], engine: str | None, options: GateOptions) -> dict[str, str]:
    """Of these parts, those that cannot run on the engine: name -> why."""
    found = {name: part(name).lacks(engine, options) for name in asked}
    return {name: why for name, why in found.items() if why is not None}


def file_of(name: str, tag: Tag) -> str:
    """The lab file that holds a part's evidence from one server; that it exists marks the step as done."""
    return f"gate/{name}-{tag}.json"


def files(asked: Sequence[str]) -> tuple[str, ...]:
    """Every evidence file of these parts."""
    return tuple(file_of(name, tag) for tag in TAGS for name in asked)


def collect(asked: Sequence[str], tag: Tag, side: Side, lab: Lab, tell: Tell | None = None) -> tuple[str, ...]:
    """Runs the parts on the server at `side`, one after another: the names of the lab files with their evidence.

    A part whose file exists is not run again; one that cannot run there leaves a file that says why. Raises KvlabError
    when the server fails.
    """
    made = []
    for name in asked:
        file, chosen = file_of(name, tag), part(name)
        made.append(file)
        if lab.has(file):
            continue
        here = msgspec.structs.replace(
            side,
            progress=_progress(chosen, tell) if tell else side.progress,
            folder=lab.path(f"gate/{name}-{tag}/x").parent if side.folder is None else side.folder,
        )
        lab.save(file, _collected(chosen, tag, here))
    return tuple(made)


def judged(asked: Sequence[str], lab: Lab, rule: GateRule) -> tuple[PartFinding, ...]:
    """What the parts found, from the evidence in the lab. Raises BadInput when evidence is missing or damaged."""
    return tuple(_judged(part(name), lab, rule) for name in asked)


def evidence(name: str, tag: Tag, lab: Lab) -> Any:
    """The evidence of one part from one server; None when the part was not run there."""
    collected = lab.load(file_of(name, tag), _Collected)
    if collected.evidence is None:
        return None
    try:
        return msgspec.convert(collected.evidence, part(name).evidence)
    except msgspec.ValidationError as problem:
        raise BadInput(
            f"{lab.folder / file_of(name, tag)} is not evidence of this version: {problem}; delete that file, and the"
            " same command does its step again"
        ) from None


def _progress(chosen: Part[Any], tell: Tell) -> Any:
    return lambda done, total: tell(chosen.title, done, total)


def _collected(chosen: Part[Any], tag: Tag, side: Side) -> _Collected:
    why = chosen.lacks(side.engine, side.options)
    found: Any = None
    if why is None:
        side.progress(0, 0)
        try:
            found = chosen.collect(side)
        except CannotRun as problem:
            why = str(problem)
    return _Collected(part=chosen.name, tag=tag, why=why, evidence=found)


def _judged(chosen: Part[Any], lab: Lab, rule: GateRule) -> PartFinding:
    missing = [why for tag in TAGS if (why := lab.load(file_of(chosen.name, tag), _Collected).why) is not None]
    if missing:
        return PartFinding(name=chosen.name, title=chosen.title, verdict="not run", because=missing[0])
    first, b, second = (evidence(chosen.name, tag, lab) for tag in TAGS)
    return chosen.judge(first, second, b, rule)
