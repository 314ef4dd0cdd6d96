"""How far two distributions over the next token are apart, from the likeliest tokens of each.

An engine states the likeliest tokens, not all of them. Tokens stated by both sides are compared one by one, and all
others as one bucket. Merging outcomes never raises the Kullback-Leibler divergence (log-sum inequality: Cover and
Thomas, Elements of Information Theory, 2nd edition, theorem 2.7.1), so the result is a lower bound of the divergence of
the whole distributions; with 20 tokens it holds nearly all of the probability.
"""

from __future__ import annotations

from math import exp, log

from kvlab.core.scoring import Scored

LEAST = 1e-7
"""Probability of the bucket of all other tokens below which rounding of 32-bit log-probabilities decides it."""


def kl(p: Scored, q: Scored) -> float:
    """D(p || q) in nats over the tokens that both state and one bucket for the rest; at least 0."""
    one, two = _known(p), _known(q)
    shared = sorted(one.keys() & two.keys())
    first = _whole([exp(one[token]) for token in shared])
    second = _whole([exp(two[token]) for token in shared])
    return max(0.0, sum(a * log(a / b) for a, b in zip(first, second, strict=True) if a > 0))


def _known(scored: Scored) -> dict[int, float]:
    return {token.id: token.logprob for token in scored.top} | {scored.true: scored.logprob}


def _whole(known: list[float]) -> list[float]:
    """The probabilities and that of all others, scaled to a sum of 1."""
    parts = [max(part, 1e-300) for part in known]
    parts.append(max(1 - sum(parts), LEAST))
    total = sum(parts)
    return [part / total for part in parts]


def flips(p: Scored, q: Scored) -> bool:
    """Whether the likeliest token changes."""
    return p.top[0].id != q.top[0].id
