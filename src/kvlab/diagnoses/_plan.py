"""Conditions that need the model's plan: decode time against the bytes that a step moves."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from kvlab.core.diagnosis import Case, Condition, Evidence, Planned, Step, both_pools, same_pool
from kvlab.core.speed import Range
from kvlab.diagnoses._rates import mean_of, prompts, token_seconds

_NEAR = 0.5
"""Share of the slow end of the planned prefill from which a GPU counts as busy with prompts: they come in bursts."""
_TOO_FAST = 1.1
"""Above this share of the bandwidth the plan is not of this server, or a step makes several tokens."""
_ASK = "decode time against bytes moved: the model's plan (kvlab plan MODEL --gpu GPU --json > plan.json; --plan)"


class Decoding(NamedTuple):
    """What one rank reads for a step, how long a step takes, and what its GPU can read."""

    size: float
    """Bytes."""
    seconds: float
    bandwidth: float
    """Bytes a second."""
    reached: Range
    """Share of the bandwidth that decoding reaches."""

    @property
    def share(self) -> float:
        """The share of the bandwidth that a step uses."""
        return self.size / (self.seconds * self.bandwidth)


def moved(case: Case) -> Condition:
    """Whether a step takes about as long as reading the weights and the live cache once at a speed that GPUs reach."""
    step = decoding(case)
    if isinstance(step, str):
        return Condition(text="what a step moves", holds=None, missing=step)
    ms, share, (least, most) = step.seconds * 1000, step.share, (step.reached.low, step.reached.high)
    line = f"weights and live cache of a step over {ms:.3g} ms x {step.bandwidth / 1e9:,.0f} GB/s (plan)"
    missing = ""
    holds: bool | None = share >= least
    if share > _TOO_FAST:
        holds, missing = None, f"{_ASK}: this one moves more than the GPU can; is it the plan of this server?"
    elif case.plan is not None and case.plan.experts and not holds:
        holds, missing = None, "which experts a step visits: the plan cannot tell reading from other work"
    evidence = (Evidence("bandwidth_share", share, line),)
    text = f"{step.size / 1e9:,.1f} GB in {ms:,.1f} ms is {share:.0%} of the GPU's bandwidth"
    text += f" (engines reach {least:.0%} to {most:.0%})"
    return Condition(text=text, holds=holds, evidence=evidence, missing=missing)


def decoding(case: Case) -> Decoding | str:
    """What a decode step reads in its time, or what is missing."""
    plan, seconds = case.plan, token_seconds(case)
    if plan is None:
        return _ASK
    if plan.bandwidth is None or plan.reached is None or plan.weights_bytes is None:
        return "the GPU's bandwidth and the weights: a plan with --gpu"
    if plan.drafts:
        return "the time of a step: drafts make several tokens in one"
    if seconds is None:
        return "time per output token in the window"
    if same_pool(plan, case.last) is False:
        return both_pools(plan, case.last)
    live = live_bytes(case, plan)
    if live is None:
        return "how much of the cache is live (kv_used_ratio)"
    weights = plan.weights_bytes * plan.stages  # each part of the batch passes the stage by itself
    return Decoding(weights + live, seconds, plan.bandwidth, plan.reached)


def live_bytes(case: Case, plan: Planned) -> float | None:
    """Bytes of live cache on one rank. What requests share is counted once, though each reads it: a lower bound."""
    share, tokens = mean_of(case, "kv_used_ratio"), mean_of(case, "kv_used_tokens")
    if share is not None and plan.pool_bytes is not None:
        return share * plan.pool_bytes
    return None if tokens is None else tokens * plan.token_bytes / plan.replicas


def past_the_turn(case: Case) -> Condition:
    """Whether more requests decode together than from where computing takes longer than reading."""
    running, plan = mean_of(case, "running"), case.plan
    if plan is None or running is None:
        return Condition(text="whether the batch is large enough to be bound by compute", holds=None, missing=_ASK)
    each, turn = running / plan.replicas, plan.compute_from
    if turn is None:
        text = f"{each:,.0f} decode together, and at the planned context no batch is bound by compute"
        return Condition(text=text, holds=False)
    evidence = (Evidence("running", each, f"mean over the looks, of each of {plan.replicas} replicas"),)
    text = f"{each:,.0f} decode together; computing takes longer than reading from {turn.earliest:,}"
    if turn.latest is not None:
        text += f" to {turn.latest:,} on"
    sure = turn.latest is not None and each >= turn.latest
    return Condition(text=text, holds=each >= turn.earliest, evidence=evidence, sure=sure)


def prefills(case: Case) -> Condition:
    """Whether prompts are computed at a rate that is near what the plan expects of the GPUs; without one, perhaps."""
    plan, rates = case.plan, prompts(case)
    if rates is None or plan is None or plan.prefill is None:
        missing = "prompt tokens a second against what the GPUs reach: a plan with --gpu (--plan)"
        return Condition(text="prompts take the time", holds=True, missing=missing, sure=False)
    low, high = (end * plan.replicas for end in (plan.prefill.low, plan.prefill.high))
    text = f"the plan expects {low:,.0f} to {high:,.0f} prompt tokens a second"
    missing = "" if rates[0] >= _NEAR * low else "what holds up the prompts: far fewer are computed than the GPUs can"
    return Condition(text=text, holds=None if missing else True, missing=missing)


def gained(case: Case, steps: tuple[Step, ...], smaller_at: int, share_at: int) -> tuple[Step, ...]:
    """The steps with the tokens that the plan says they buy; a step that buys none here is left out.

    `smaller_at` is the step that stores the cache in fewer bytes, `share_at` the one that claims more memory.
    """
    plan = case.plan
    if plan is None or plan.tokens is None:
        return steps
    found = list[Step]()
    for at, step in enumerate(steps):
        if at == smaller_at:
            found += _smaller(plan, step)
        elif at == share_at:
            found += _larger(plan, step)
        else:
            found.append(step)
    return tuple(found)


def _smaller(plan: Planned, step: Step) -> list[Step]:
    own = next((other.tokens for other in plan.alternatives if other.kv_dtype == plan.kv_dtype), plan.tokens)
    better = [other for other in plan.alternatives if (other.tokens or 0) > (own or 0)]
    if not better or plan.tokens is None:
        return []
    first = better[0]
    expect = (
        f"{first.kv_dtype} holds {first.tokens:,} tokens where {plan.kv_dtype} holds {plan.tokens:,}"
        f" (x{(first.tokens or 0) / plan.tokens:.2f}, by the plan)"
    )
    return [replace(step, expect=expect)]


def _larger(plan: Planned, step: Step) -> list[Step]:
    move = next((move for move in plan.moves if "--util" in move.text and move.gain_tokens), None)
    if move is None or plan.tokens is None:
        return []
    expect = f"{move.text.split(',')[0]}: {move.gain_tokens:,} tokens more than {plan.tokens:,} (plan)"
    return [replace(step, expect=expect)]
