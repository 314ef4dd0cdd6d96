"""A plan made again with settings that a log states, to see whether the log then says what was planned."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec

from kvlab import engines
from kvlab.core.cause import Changes
from kvlab.core.check import CheckRow, compare
from kvlab.core.errors import KvlabError
from kvlab.core.follows import POOL, stated_pool
from kvlab.core.model import Origin
from kvlab.core.observation import Observation, Value
from kvlab.core.plan import Ask, Expected, Plan
from kvlab.core.units import GIB, HALF_DIGIT
from kvlab.planning import foresee
from kvlab.request import OWN_OPTIONS
from kvlab.source import Loaded, load

_UNSAID = Ask()


def value_of(ask: Ask, name: str) -> Value:
    """What a request says of a setting: the field, or the engine's flag of that name."""
    if name in Ask.__struct_fields__:
        found: Value = getattr(ask, name)
        return found
    return ask.arg(name)


def alike(planned: Value, seen: Value) -> bool:
    """Whether two values of one setting are the same: a switch that is not given is off, "auto" is nothing said."""
    one, other = _plain(planned), _plain(seen)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) < 1e-9
    return one == other


def _plain(value: Value) -> object:
    """A value by which settings compare: 0 is a switch that is off, and 1 one that is on."""
    if value in (None, False, "auto", "", "false", "False"):
        return None
    if value in (True, "true", "True"):
        return True
    try:
        return float(value)
    except ValueError:
        pass
    try:
        return json.loads(str(value))
    except ValueError:
        return str(value).lower()


def changed(ask: Ask, changes: Changes) -> Ask:
    """The request with other settings; None gives one back to the engine."""
    fields: dict[str, object] = {}
    flags = {name.replace("_", "-"): value for name, value in ask.engine_args}
    for name, value in changes.items():
        if name in Ask.__struct_fields__:
            fields[name] = getattr(_UNSAID, name) if value is None else value
        elif value is None or value is False:
            flags.pop(name, None)
        else:
            flags[name] = "true" if value is True else str(value)
    if {"tp", "pp", "dp"} & fields.keys():
        fields["gpus"] = None
    return msgspec.structs.replace(ask, engine_args=tuple(flags.items()), **fields)


def _own(ask: Ask) -> Ask:
    """A planned request without the sizes that the plan filled in for options that its engine does not have."""
    others = OWN_OPTIONS - engines.planner(ask.engine).options
    return msgspec.structs.replace(ask, **{name: getattr(_UNSAID, name) for name in others})


def as_asked(plan: Plan) -> Ask:
    """The request that makes this plan again: without what planning filled in for options that its engine lacks."""
    normal = engines.stated_args(plan.engine.name).normal
    return _own(normal(plan) if normal is not None else plan.ask)


def found_source(plan: Plan, source: str | None, near: str | None = None) -> tuple[Loaded | None, str]:
    """The model of a plan, from `source`, or from where the plan's record and command say that it is.

    `near` is a folder to look in beside the working one. With None: why there is none.
    """
    origin = plan.source
    if source is not None:
        return load(source), ""
    if origin.kind == "hub":
        names = [f"{origin.name}@{origin.revision}" if origin.revision else origin.name]
    else:
        words = [origin.name, *([os.path.join(near, origin.name)] if near else []), *plan.launch.argv[1:]]
        places = [Path(word).expanduser() for word in words if word and len(word) < 4096 and not word.startswith("-")]
        if origin.kind == "config":
            places += [place / "config.json" for place in places]
        names = [str(place) for place in dict.fromkeys(places) if _holds(place, origin.kind)]
    for name in names:
        try:
            found = load(name)
        except KvlabError:
            continue
        if (found.origin.name, found.origin.kind) == (origin.name, origin.kind):
            return found, ""
    return None, _where(origin, near)


def _where(origin: Origin, near: str | None) -> str:
    """What to do about a model that is not found."""
    if origin.kind == "hub":
        return f"{origin.name} cannot be read from the Hub now: give --source with a folder or a config.json of it"
    where = "neither in this folder nor beside the plan" if near else "not in this folder"
    return (
        f"{origin.name} is {where} (a plan keeps a model's name and not its folder): give --source FOLDER/{origin.name}"
    )


def _holds(place: Path, kind: str) -> bool:
    try:
        return place.is_dir() if kind == "folder" else place.is_file()
    except (OSError, ValueError):
        return False


class Replanner:
    """Plans again and compares again. The log's own pool stands in the place of the budget's for all other rows."""

    def __init__(self, plan: Plan, observation: Observation, loaded: Loaded) -> None:
        self._plan, self._observation, self._loaded = plan, observation, loaded
        self._pool = stated_pool(observation)
        self.ask = as_asked(plan)
        self._known: dict[str, tuple[CheckRow, ...] | None] = {}

    def same(self) -> bool:
        """Whether the model gives the same plan as before; without what was learned since, if that is it."""
        for ask in (self.ask, msgspec.structs.replace(self.ask, calibration=False)):
            again = self._made(ask)
            if again is not None and _values(again) == _values(self._plan):
                self.ask = ask
                return True
        return False

    def rows(self, changes: Changes) -> tuple[CheckRow, ...] | None:
        """The comparison with other settings; None when they cannot be planned."""
        key = repr(sorted(changes.items()))
        if key not in self._known:
            self._known[key] = self._compared(changed(self.ask, changes))
        return self._known[key]

    def _made(self, ask: Ask) -> Plan | None:
        """The plan with what a log of `ask` would state; its tables and its launch stay those of before."""
        try:
            found = foresee(self._loaded, ask)
        except (KvlabError, ValueError, ArithmeticError):
            return None
        return msgspec.structs.replace(
            self._plan,
            expects=found.expects,
            ledger=found.prepared.ledger + found.carved.cache_lines,
            capacity=found.carved.capacity,
            kv=found.carved.kv,
            ask=found.prepared.deployment.ask,
        )

    def _compared(self, ask: Ask) -> tuple[CheckRow, ...] | None:
        again = self._made(ask)
        if again is None:
            return None
        if self._pool is None or all(line.name != POOL for line in again.ledger):
            return compare(again, self._observation).rows
        size, named = self._pool
        rounding = HALF_DIGIT * len(named)
        if ask.pool_gib is not None and abs(ask.pool_gib - size / GIB) <= rounding:
            given = compare(again, self._observation).rows
            if all(row.verdict != "differs" for row in given):
                return given  # the one that was given, to the byte
        printed, *ends = [
            self._made(msgspec.structs.replace(ask, pool_gib=max(1e-6, size / GIB + end)))
            for end in (0.0, -rounding, rounding)
        ]
        if printed is not None:
            others = [end.expects for end in ends if end is not None]
            rows = tuple(_within(row, others) for row in printed.expects if row.name not in named)
            pool = tuple(row for row in again.expects if row.name in named)
            again = msgspec.structs.replace(again, expects=(*pool, *rows))
        return compare(again, self._observation).rows


def _values(plan: Plan) -> dict[str, float | str]:
    return {row.name: row.value for row in plan.expects}


def _within(row: Expected, others: list[tuple[Expected, ...]]) -> Expected:
    """`row` anywhere that the rounding of the pool allows."""
    value = row.value
    if isinstance(value, str):
        return row
    found = [item.value for end in others for item in end if item.name == row.name and not isinstance(item.value, str)]
    low, high = min([value, *found]), max([value, *found])
    if low == high:
        return row
    spread = max(high - value, value - low)
    return msgspec.structs.replace(row, low=low, high=high, tolerance=row.tolerance + spread)
