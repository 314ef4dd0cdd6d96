"""What a GPU's memory holds beside the cache: the weights of one rank, and everything that is neither."""

from __future__ import annotations

import msgspec

from kvlab.core.calibration import Start
from kvlab.core.engine import Deployment, Planner
from kvlab.core.model import Weights
from kvlab.core.taken import Taken
from kvlab.core.units import GIB, size

_AGAIN = 100 << 20
"""Bytes by which the same start varies: vLLM's own margin for --kv-cache-memory is 150 MiB."""
_OTHER_MODEL = 0.15
"""Share of an estimate by which other models' starts may err in another way."""


def taken(
    planner: Planner, deployment: Deployment, starts: tuple[Start, ...] = (), model: str | None = None
) -> list[Taken]:
    """The lines of the ledger above the pool, for a deployment whose weights are known.

    A given --weights-gib is split evenly; a given --overhead-gib stands for all terms of the overhead. `starts` of the
    same engine, release and GPU correct what is estimated; `model` is the source's name in them.
    """
    assert deployment.weights is not None
    weights, terms = _weights(planner, deployment, deployment.weights), _overhead(planner, deployment)
    if not starts:
        return [weights, *terms]
    if deployment.ask.weights_gib is None:
        weights = _measured(weights, [start for start in starts if _same_ranks(start, deployment, model)])
    if deployment.ask.overhead_gib is not None:
        return [weights, *terms]
    alike = [start for start in starts if _same_setting(start, deployment, model)]
    return [weights, *_calibrated(terms, starts, alike)]


def _weights(planner: Planner, deployment: Deployment, weights: Weights) -> Taken:
    if planner.rank_weights is not None and weights.tensors:
        return planner.rank_weights(deployment)
    return even(weights, (deployment.ask.tp or 1) * deployment.ask.pp)


def _same_ranks(start: Start, deployment: Deployment, model: str | None) -> bool:
    ask = deployment.ask
    return (start.model, start.tp, start.pp, start.dp) == (model, ask.tp or 1, ask.pp, ask.dp)


def _measured(weights: Taken, starts: list[Start]) -> Taken:
    """The weights as earlier starts of the same model loaded them; as counted when there was none."""
    seen = [start.weights_bytes for start in starts if start.weights_bytes is not None]
    if not seen:
        return weights
    because = f"loaded by {_count(len(seen))} of this model here, as kvlab check --learn saw"
    low, high = min(seen), max(seen)
    margin = GIB // 200  # half of the last printed digit
    return Taken(
        name=weights.name,
        low=low - margin,
        bytes=sum(seen) // len(seen),
        high=high + margin,
        kind="measured",
        because=because,
    )


def _calibrated(terms: tuple[Taken, ...], starts: tuple[Start, ...], alike: list[Start]) -> tuple[Taken, ...]:
    """The terms as estimated, and a line for what earlier starts took more (or less) than theirs."""
    used = alike or list(starts)
    more = [start.overhead_bytes - start.estimated_overhead_bytes for start in used]
    guess = sum(term.bytes for term in terms)
    # The same start again varies little; another model's terms may be wrong in another way.
    margin = _AGAIN if alike else _AGAIN + round(_OTHER_MODEL * guess)
    mean = sum(more) // len(more)
    what = "of this setting" if alike else "of other settings"
    words = "more" if mean >= 0 else "less"
    because = (
        f"{_count(len(used))} {what} with {used[-1].engine} {used[-1].version} on {used[-1].gpu} took"
        f" {size(abs(mean))} {words} than estimated, as kvlab check --learn saw; --no-calibration leaves it out"
    )
    line = Taken(
        name="calibration",
        low=min(more) - margin,
        bytes=mean,
        high=max(more) + margin,
        kind="measured",
        because=because,
    )
    # What is known of starts on this GPU replaces what was fitted on others: the range is the line's own.
    sure = [msgspec.structs.replace(term, low=term.bytes, high=term.bytes) for term in terms]
    return (*sure, line)


def _same_setting(start: Start, deployment: Deployment, model: str | None) -> bool:
    ask = deployment.ask
    limits = ("context", "max_num_batched_tokens", "max_num_seqs")
    same = all(getattr(start, name) == getattr(ask, name) for name in limits)
    return same and _same_ranks(start, deployment, model)


def _count(starts: int) -> str:
    return "1 start" if starts == 1 else f"{starts} starts"


def even(weights: Weights, ranks: int) -> Taken:
    """An even share of the bytes. What every rank keeps a copy of (norms, routers, embeddings) comes on top."""
    share = weights.bytes // ranks
    low = share if weights.low is None else weights.low // ranks
    high = share if weights.high is None else weights.high // ranks
    if ranks == 1:
        return Taken(name="weights", low=low, bytes=share, high=high, kind=weights.kind, because=weights.because)
    return Taken(
        name="weights",
        low=low,
        bytes=round(share * 1.03),
        high=round(high * 1.15),
        kind="estimated",
        because=f"{weights.because}, over {ranks} GPUs; what every rank keeps a copy of comes on top",
    )


def _overhead(planner: Planner, deployment: Deployment) -> tuple[Taken, ...]:
    given = deployment.ask.overhead_gib
    if given is not None:
        amount = round(given * GIB)
        because = "taken as given (--overhead-gib)"
        return (Taken(name="overhead", low=amount, bytes=amount, high=amount, kind="computed", because=because),)
    if planner.overhead is not None:
        return planner.overhead(deployment)
    low, guess, high = planner.guess_overhead
    because = planner.overhead_because
    return (Taken(name="overhead", low=low, bytes=guess, high=high, kind="estimated", because=because),)
