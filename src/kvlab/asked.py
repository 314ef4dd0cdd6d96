"""The questions beside the plan itself: which GPUs, a matrix, the rows that nothing beats."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvlab.core.plan import Ask, Plan
from kvlab.core.sizing import Candidates, Search
from kvlab.planning import make_plan
from kvlab.source import Loaded


def with_questions(
    loaded: Loaded, ask: Ask, source: str, search: Search, progress: Callable[[int, int], None] | None = None
) -> Plan:
    """The plan of `ask`, and the answers to what `search` and the request ask besides.

    `--users` without a GPU asks which GPUs serve them; a GPU with * or a comma is a pattern for that question. Raises
    KvlabError as `make_plan` does, and BadInput for a pattern or a price of no known GPU.
    """
    if ask.gpu is not None and any(letter in ask.gpu for letter in "*?,"):
        search = msgspec.structs.replace(search, only=ask.gpu)
        ask = msgspec.structs.replace(ask, gpu=None)
    backwards = ask.gpu is None and ask.gpu_gib is None and ask.pool_gib is None
    plan = make_plan(loaded, ask, source)
    if backwards and (ask.users is not None or search.only is not None):
        from kvlab.sizing import candidates

        plan = _answered(plan, candidates(loaded, ask, search, progress))
    if search.matrix or search.pareto:
        from kvlab import grid

        if search.matrix:
            plan = msgspec.structs.replace(plan, matrix=grid.matrix(loaded, ask))
        if search.pareto:
            plan = msgspec.structs.replace(plan, pareto=grid.pareto(loaded, ask, search, progress))
    return plan


def _answered(plan: Plan, found: Candidates) -> Plan:
    """The plan with the answer in its verdict."""
    what = f"{found.users:,} requests of {found.context:,} tokens at once"
    if found.rows:
        best = next((row for row in found.rows if row.verdict == "holds"), found.rows[0])
        least = "cheapest" if best.usd_per_hour is not None else "smallest"
        cost = f", {best.usd_per_hour:,.2f} dollars an hour" if best.usd_per_hour is not None else ""
        how = "holds" if best.verdict == "holds" else "may hold"
        split = f"{best.gpus} x {best.gpu} ({best.split()}, {best.kv_dtype} cache)"
        text = f"the {least} that {how} {what}: {split}{cost}"
    else:
        text = f"none of {found.gpus_tried} kinds serves {what} with up to {found.most_gpus} of it"
    verdict = msgspec.structs.replace(plan.verdict, text=text)
    return msgspec.structs.replace(plan, candidates=found, verdict=verdict)
