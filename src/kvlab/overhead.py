"""What a GPU's memory holds beside the cache: the weights of one rank, and everything that is neither."""

from __future__ import annotations

from kvlab.core.engine import Deployment, Planner
from kvlab.core.model import Weights
from kvlab.core.taken import Taken
from kvlab.core.units import GIB


def taken(planner: Planner, deployment: Deployment) -> list[Taken]:
    """The lines of the ledger above the pool, for a deployment whose weights are known.

    A given --weights-gib is split evenly; a given --overhead-gib stands for all terms of the overhead.
    """
    assert deployment.weights is not None
    return [_weights(planner, deployment, deployment.weights), *_overhead(planner, deployment)]


def _weights(planner: Planner, deployment: Deployment, weights: Weights) -> Taken:
    if planner.rank_weights is not None and weights.tensors:
        return planner.rank_weights(deployment)
    return even(weights, (deployment.ask.tp or 1) * deployment.ask.pp)


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
