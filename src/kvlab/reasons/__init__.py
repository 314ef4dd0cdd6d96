"""`kvlab check` with causes: what a difference follows from, and why it is likely there, the surest first."""

from __future__ import annotations

import msgspec

from kvlab import engines
from kvlab.core.check import Check, compare
from kvlab.core.observation import Observation
from kvlab.core.plan import Plan
from kvlab.core.stated import with_derived
from kvlab.reasons.differing import differing, speaker, told
from kvlab.reasons.learning import with_offer
from kvlab.reasons.replan import Replanner, found_source
from kvlab.reasons.search import Search
from kvlab.reasons.tier import tier_remarks

__all__ = ["checked"]


def checked(plan: Plan, observation: Observation, *, source: str | None = None, near: str | None = None) -> Check:
    """The comparison, with the line of the ledger and the causes behind each row that differs.

    `source` is where the plan's model is, when it is not where the plan says; `near` a folder to look in. Raises
    BadInput as `compare` does.
    """
    observation = with_derived(observation, engines.stated_args(plan.engine.name))
    found = compare(plan, observation)
    found = msgspec.structs.replace(found, remarks=(*tier_remarks(plan, observation), *found.remarks))
    if all(row.verdict != "differs" for row in found.rows):
        asked = _other_start(plan, observation) if found.refused is not None else []
        return msgspec.structs.replace(found, remarks=(*asked, *found.remarks))
    loaded, missing = found_source(plan, source, near)
    again = Replanner(plan, observation, loaded) if loaded is not None else None
    if again is not None and not again.same():
        again, missing = None, f"{plan.source.name} is planned otherwise now than in this plan"
    return with_offer(Search(found, plan, observation, again).check(missing), plan, observation)


def _other_start(plan: Plan, observation: Observation) -> list[str]:
    """What a start that was refused was asked, and the plan was not."""
    items, who = differing(plan, observation), speaker(observation)
    return [told(item, who) for item in items if item.planned is not None and item.setting.value is not None]
