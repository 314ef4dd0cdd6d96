"""The questions beside the plan itself: which GPUs, a matrix, the rows that nothing beats."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from kvlab import engines, prices
from kvlab.core.errors import BadInput, KvlabError
from kvlab.core.plan import Ask, Launch, Move, Plan
from kvlab.core.sizing import Candidate, Candidates, Search, is_pattern
from kvlab.core.units import ceil_div
from kvlab.planning import make_plan
from kvlab.source import Loaded


def with_questions(
    loaded: Loaded, ask: Ask, source: str, search: Search, progress: Callable[[int, int], None] | None = None
) -> Plan:
    """The plan of `ask`, and the answers to what `search` and the request ask besides.

    `--users` without a GPU asks which GPUs serve them; a GPU with * or a comma is a pattern for that question. The plan
    is then that of the best row, or has no command when no row surely holds them. Raises KvlabError as `make_plan`
    does, and BadInput for a pattern or a price of no known GPU.
    """
    _refuse_unused(ask, search)
    if is_pattern(ask.gpu):
        search = msgspec.structs.replace(search, only=ask.gpu)
        ask = msgspec.structs.replace(ask, gpu=None)
    if ask.placed or (ask.users is None and search.only is None):
        plan = make_plan(loaded, ask, source)
        plan = _with_move(plan, loaded, ask)
    else:
        plan = _bare(loaded, ask, source)
        if loaded.weights is None and ask.weights_gib is None:
            plan = _saying(plan, "which GPUs serve it is not known without the weights; add --weights-gib X")
        else:
            from kvlab.sizing import candidates

            found = candidates(loaded, ask, search, progress)
            plan = msgspec.structs.replace(_of_best(plan, loaded, ask, source, found), candidates=found)
    if search.matrix or search.pareto:
        from kvlab import grid

        if search.matrix:
            plan = msgspec.structs.replace(plan, matrix=grid.matrix(loaded, ask))
        if search.pareto:
            plan = msgspec.structs.replace(plan, pareto=grid.pareto(loaded, ask, search, progress))
    return plan


def _refuse_unused(ask: Ask, search: Search) -> None:
    """Raises BadInput for what the questions would leave out silently, and for prices and a limit that are none."""
    if search.limit < 1:
        raise BadInput(f"--limit {search.limit} must be at least 1")
    prices.checked(search.prices, "--price")
    which = "--pareto" if search.pareto else f"--gpu {ask.gpu!r}" if is_pattern(ask.gpu) else None
    given = next((name for name in ("gpu_gib", "pool_gib") if getattr(ask, name) is not None), None)
    if which is not None and given is not None:
        raise BadInput(
            f"{which} compares kinds of GPU by their own memory, so --{given.replace('_', '-')} has no place beside it;"
            " leave out one of the two"
        )


def _bare(loaded: Loaded, ask: Ask, source: str) -> Plan:
    """What the cache costs, before GPUs are looked for: shares are of those."""
    alone = msgspec.structs.replace(ask, share_gib=None, share_fraction=None)
    try:
        return make_plan(loaded, alone, source)
    except KvlabError:
        if engines.planner(ask.engine).one_request is None or ask.users is None or ask.parallel is not None:
            raise
        # More users than one server has slots may be held by several.
        return make_plan(loaded, msgspec.structs.replace(alone, users=1), source)


def _of_best(bare: Plan, loaded: Loaded, ask: Ask, source: str, found: Candidates) -> Plan:
    """The plan of the best row with the answer as its verdict's text; `bare`, without a command, when none holds.

    An engine without --dp serves replicas as servers of their own: then it is the plan of one of them.
    """
    options = engines.planner(ask.engine).options
    answer = _answer(found, split="tp" in options)
    if not found.rows or found.best.verdict != "holds":
        return _saying(msgspec.structs.replace(bare, launch=Launch(argv=())), answer)
    best = found.best
    together = "dp" in options
    asked = msgspec.structs.replace(
        ask,
        gpu=best.gpu,
        gpus=None,
        tp=best.tp if best.tp > 1 else None,
        pp=best.pp,
        dp=best.dp if together else 1,
        dcp=best.dcp,
        users=found.users if together else ceil_div(found.users, best.dp),
    )
    plan = make_plan(loaded, asked, source)
    if plan.kv.dtype != best.kv_dtype:
        plan = make_plan(loaded, msgspec.structs.replace(asked, kv_dtype=best.kv_dtype), source)
    return _saying(plan, answer)


def _saying(plan: Plan, text: str) -> Plan:
    return msgspec.structs.replace(plan, verdict=msgspec.structs.replace(plan.verdict, text=text))


def _answer(found: Candidates, *, split: bool) -> str:
    """The answer in words; `split` is whether copies over several GPUs were tried."""
    what = f"{_requests(found.users)} of {found.context:,} tokens at once"
    if not found.rows:
        one = found.gpus_tried == 1
        none = "the 1 kind of GPU does not serve" if one else f"none of {found.gpus_tried} kinds of GPU serves"
        return f"{none} {what} with up to {found.most_gpus} of it{'' if split else ', each with the whole model'}"
    best = found.best
    how = "holds" if best.verdict == "holds" else "may hold"
    if best.usd_per_hour is not None:
        return f"the cheapest that {how} {what}: {_named(best)}, {best.usd_per_hour:,.2f} dollars an hour"
    fewer = any(row.shared_memory and row.gpus < best.gpus for row in found.rows)
    own = " with memory of their own" if fewer else ""
    return f"the fewest GPUs{own} that {how.replace('holds', 'hold')} {what}: {_named(best)}"


def _requests(count: int) -> str:
    return f"{count:,} request{'' if count == 1 else 's'}"


def _named(row: Candidate) -> str:
    return f"{row.gpus} x {row.gpu} ({row.split()}, {row.kv_dtype} cache)"


def _with_move(plan: Plan, loaded: Loaded, ask: Ask) -> Plan:
    """A plan that falls short on a named GPU, with how many of it would do."""
    short = plan.verdict.code in ("fits_with_smaller_dtype", "does_not_fit") or plan.verdict.holds_users is False
    split = ask.tp is not None or ask.gpus is not None or ask.pp > 1 or ask.dp > 1
    own = ask.gpu is None or ask.gpu_gib is not None or ask.pool_gib is not None or ask.gpu.strip().lower() == "cpu"
    if not short or split or own:
        return plan
    from kvlab.facts import gpus
    from kvlab.sizing import candidates

    assert ask.gpu is not None
    search = Search(only=f"{gpus.find(ask.gpu).name},")
    found = candidates(loaded, msgspec.structs.replace(ask, gpu=None), search)
    if not found.rows or found.best.gpus == 1:
        return plan
    sure = "" if found.best.verdict == "holds" else "may hold "
    move = Move(f"take {_named(found.best)}: {sure}{_requests(found.best.concurrency)} at once", None)
    verdict = msgspec.structs.replace(plan.verdict, moves=(*plan.verdict.moves, move))
    return msgspec.structs.replace(plan, verdict=verdict)
