"""The settings that a log states otherwise than the plan, and how they are told."""

from __future__ import annotations

from typing import NamedTuple

from kvlab import causes, engines
from kvlab.core.observation import Observation, Setting, Value
from kvlab.core.plan import Ask, Plan
from kvlab.reasons.replan import alike, value_of
from kvlab.request import OWN_OPTIONS

_RANKS = ("tp", "pp", "dp", "dcp", "ep")


class Differing(NamedTuple):
    """A setting that the log states otherwise than the plan."""

    setting: Setting
    planned: Value
    code: str
    """Of its cause."""


def differing(plan: Plan, observation: Observation) -> list[Differing]:
    """Stated settings that are not the plan's, each with its cause."""
    normal = engines.stated_args(plan.engine.name).normal
    ask, found = normal(plan) if normal is not None else plan.ask, []
    options = engines.planner(plan.engine.name).options
    for setting in (*observation.settings, *_silent(ask, observation), *_version(observation)):
        code = causes.of_setting(setting.name)
        if code is None or (setting.name in OWN_OPTIONS and setting.name not in options):
            continue
        planned = _planned(plan, ask, setting.name)
        if not alike(planned, setting.value):
            found.append(Differing(setting, planned, code))
    return found


def _planned(plan: Plan, ask: Ask, name: str) -> Value:
    """What the plan holds of a setting: what was asked for, or what it took in its place."""
    if name == "engine_version":
        return plan.engine.version
    value = value_of(ask, name)
    if name == "context" and value is None:
        return plan.kv.context
    if name == "block_size" and value is None and plan.capacity is not None:
        return plan.capacity.block_size
    if name == "util" and value is None:
        return engines.planner(plan.engine.name).default_util(ask)
    return 1 if name in _RANKS and value is None else value


def _silent(ask: Ask, observation: Observation) -> list[Setting]:
    """Settings that were asked for, and are not among the arguments that the log lists in full."""
    if not observation.all_settings:
        return []
    stated, found = {item.name for item in observation.settings}, []
    lists = [item for item in engines.stated_args(observation.engine).lists if item.whole]
    for key, named in lists[0].names.items() if lists else ():
        if named.name not in stated and named.name not in ("model", *_RANKS):
            line = "the arguments that the log lists do not hold it"
            found.append(Setting(name=named.name, flag=lists[0].flag(key), value=None, line=line))
    return [item for item in found if not alike(value_of(ask, item.name), None)]


def _version(observation: Observation) -> list[Setting]:
    if observation.version is None:
        return []
    line = f"version {observation.version}"
    return [Setting(name="engine_version", flag="version", value=observation.version, line=line)]


def option(name: str, value: Value) -> str:
    """How kvlab plan is asked for a setting."""
    if name == "share_gib" and value is not None:
        return f"--share {value}GiB"
    if name in Ask.__struct_fields__:
        flag = name.replace("_", "-")
        if value is None or (name == "swa_full" and value is False):  # --swa-full has no opposite
            return f"without --{flag}"
        if isinstance(value, bool):
            return f"--{flag}" if value else f"--no-{flag}"
        return f"--{flag} {_shown(value)}"
    return f"without --engine-arg {name}" if value in (None, False) else f"--engine-arg {name}={_shown(value)}"


def _shown(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def speaker(observation: Observation) -> str:
    """What states the settings, in a word: a log's, unless the pages of a server stand alone."""
    return "server" if observation.server else "log"


def told(item: Differing, who: str) -> str:
    """The two values side by side, and what to plan with. `who` is the observation's speaker."""
    name, value, planned = item.setting.name, item.setting.value, item.planned
    if item.setting.line.startswith("/"):  # of a page, which may be read beside a log
        who = "server"
    asked = option(name, value)
    change = f"plan {asked}" if asked.startswith("without") else f"plan with {asked}"
    if planned in (None, False) and value is not None:
        given = "" if value is True else f" {_shown(value)}"
        return f"the {who} has {item.setting.flag}{given}, which the plan does not give: {change}"
    said = "left out" if value is None else _shown(value)
    return f"the {who}'s {item.setting.flag} is {said}, the plan's {_shown(planned)}: {change}"
