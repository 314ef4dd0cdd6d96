"""A tier below the GPU's cache that only one of the two has, the plan or the log."""

from __future__ import annotations

from kvlab import engines
from kvlab.core.observation import Observation, Setting, Value
from kvlab.core.plan import Plan
from kvlab.reasons.differing import option

_KIND, _SIZE = "offload", "offload_gib"


def tier_remarks(plan: Plan, observation: Observation) -> tuple[str, ...]:
    """What to say of the two tiers, when the log's arguments tell of one or could have.

    A tier's size is compared row by row where both have one: here it is whether they have the same.
    """
    stated, planned = observation.setting(_KIND), plan.ask.offload
    if stated is None:
        return _lacking(plan, observation)
    given = plan.ask.arg(stated.flag.removeprefix("--")) is not None
    if stated.value == planned or (planned is None and given):
        return ()
    others = (option(_KIND, stated.value), *_size(observation.setting(_SIZE)))
    change = f"plan with {' '.join(others)}"
    where = f" on line {stated.line_number}" if stated.line_number is not None else ""
    if planned is None:
        return (f"the log's engine has a tier that the plan has not: {_said(stated)}{where}: {change}",)
    return (f"the log's tier is {stated.value} ({_said(stated)}{where}), the plan's is {planned}: {change}",)


def _lacking(plan: Plan, observation: Observation) -> tuple[str, ...]:
    """The plan has a tier, and neither the arguments of the log nor another of its lines tells of one."""
    part, planned = engines.stated_args(plan.engine.name), plan.ask.offload
    told = any(item.name.startswith("offload_") for item in observation.seen)
    if planned is None or not part.tiers or not observation.all_settings or told:
        return ()
    asked = option(_KIND, planned)
    return (f"the plan has a tier that the log's arguments do not give ({asked}): plan without it, or start it so",)


def _said(stated: Setting) -> str:
    """The argument as the log has it; a switch stands alone."""
    text = stated.line.partition(f"{stated.flag.removeprefix('--').replace('-', '_')}=")[2].partition(" ...")[0]
    return stated.flag if not text or len(text) > 40 or text == "True" else f"{stated.flag} {text}"


def _size(stated: Setting | None) -> tuple[str, ...]:
    value: Value = None if stated is None else stated.value
    return () if value is None else (option(_SIZE, value),)
