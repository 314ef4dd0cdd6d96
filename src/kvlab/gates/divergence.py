"""Log-probabilities of fixed texts, token by token, on both arms: how far what they expect next is apart.

Every position has the same text before it on both arms, so one early difference does not carry on into all that
follows, as it does in a generated answer: the numbers see losses that are far too small to change a word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import pairwise
from math import exp
from typing import Literal, NamedTuple

import msgspec

from kvlab.core.divergence import flips, kl
from kvlab.core.gate import (
    CannotRun,
    Example,
    Figure,
    GateOptions,
    GateRule,
    LengthRow,
    Part,
    PartFinding,
    PartVerdict,
    Side,
)
from kvlab.core.interval import Interval
from kvlab.core.scoring import Candidate, Scored
from kvlab.core.statistics import MINIMUM, bootstrap_interval, bootstrap_ratio
from kvlab.gates._scoring import ScoredText, TextScores, score_texts, scores_of, span_of

NAME, TITLE = "divergence", "Log-probabilities of fixed texts"
_TAKEN = "token taken differs"
BLOCK = 4
"""Neighbouring positions that are drawn together: they share most of what stands before them."""
SHOWN = 12
"""Positions kept to read."""


class _Position(NamedTuple):
    """One position as the three servers scored it."""

    text: str
    long: bool
    before: str
    a: Scored
    again: Scored
    b: Scored


class _Measure(NamedTuple):
    """A number of two scored positions, arm A's first, and what the rule says of its mean."""

    name: str
    unit: Literal["share", "nats"]
    of: Callable[[Scored, Scored], float | None]
    """None where a server does not show it."""
    same: float
    loss: float


def _judge(a_first: TextScores, a_second: TextScores, b: TextScores, rule: GateRule) -> PartFinding:
    if not _read_alike(a_first, a_second):
        because = "arm A read other tokens after its restart, so its positions do not pair; run the gate again"
        return PartFinding(name=NAME, title=TITLE, verdict="inconclusive", because=because)
    if not _read_alike(a_first, b):
        because = "arm B splits the texts into other tokens than arm A: it serves another model or tokenizer"
        return PartFinding(name=NAME, title=TITLE, verdict="fail", because=because)
    paired = _paired(a_first, a_second, b)
    measures = [
        _Measure("mean KL divergence", "nats", kl, rule.kl_same, rule.kl_loss),
        _Measure("likeliest token differs", "share", _flips, rule.flips_same, rule.flips_loss),
        _Measure(_TAKEN, "share", _taken, rule.flips_same, rule.flips_loss),
    ]
    if not any(scored.chosen is not None for one in paired for scored in (one.a, one.again, one.b)):
        measures.pop()
    figures = [_figure(measure, paired, rule.seed) for measure in measures]
    verdict = _verdict(measures, figures)
    perplexity = _perplexity(paired, rule.seed)
    return PartFinding(
        name=NAME,
        title=TITLE,
        verdict=verdict,
        because=_because(verdict, [*figures, perplexity], len(paired), a_first),
        numbers=(*figures, perplexity),
        by_length=_by_length(measures, paired, rule.seed),
        examples=_examples(paired),
    )


def _read_alike(one: TextScores, two: TextScores) -> bool:
    return _tokens(one.texts) == _tokens(two.texts)


def _tokens(texts: Sequence[ScoredText]) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(text.id, text.tokens_hash, tuple(spot.scored.position for spot in text.spots)) for text in texts]


def _paired(a_first: TextScores, a_second: TextScores, b: TextScores) -> list[_Position]:
    found = []
    for text, again, other in zip(a_first.texts, a_second.texts, b.texts, strict=True):
        for spot, second, third in zip(text.spots, again.spots, other.spots, strict=True):
            found.append(_Position(text.id, text.long, spot.before, spot.scored, second.scored, third.scored))
    return found


def _flips(p: Scored, q: Scored) -> float:
    return float(flips(p, q))


def _taken(p: Scored, q: Scored) -> float | None:
    return None if p.chosen is None or q.chosen is None else float(p.chosen != q.chosen)


def _lost(p: Scored, q: Scored) -> float:
    """Log-probability of the token that stands there: lost with `q`."""
    return p.logprob - q.logprob


def _figure(measure: _Measure, paired: Sequence[_Position], seed: int) -> Figure:
    return Figure(
        name=measure.name,
        unit=measure.unit,
        a=_mean(paired, lambda one: measure.of(one.a, one.again), seed),
        b=_mean(paired, lambda one: measure.of(one.a, one.b), seed),
        difference=_mean(paired, lambda one: _more(measure, one), seed),
        allowed=measure.loss,
    )


def _more(measure: _Measure, one: _Position) -> float | None:
    """B against A, less A against A."""
    b, floor = measure.of(one.a, one.b), measure.of(one.a, one.again)
    return None if b is None or floor is None else b - floor


def _perplexity(paired: Sequence[_Position], seed: int) -> Figure:
    """The exponential of the mean log-probability lost is the ratio of the perplexities on these positions."""
    floor = _mean(paired, lambda one: _lost(one.a, one.again), seed)
    lost = _mean(paired, lambda one: _lost(one.a, one.b), seed)
    return Figure(name="perplexity, against A's", unit="ratio", a=_exp(floor), b=_exp(lost))


def _exp(value: Interval | None) -> Interval | None:
    return None if value is None else Interval(exp(value.value), exp(value.low), exp(value.high))


def _mean(paired: Sequence[_Position], of: Callable[[_Position], float | None], seed: int) -> Interval | None:
    """Mean over positions. Blocks of neighbours are what is drawn; where those are too few, positions."""
    by_text: dict[str, list[float]] = defaultdict(list)
    for one in paired:
        if (value := of(one)) is not None:
            by_text[one.text].append(value)
    blocks = [block for values in by_text.values() for block in _blocks(values)]
    if len(blocks) < MINIMUM["mean"]:
        return bootstrap_interval([value for values in by_text.values() for value in values], "mean", seed=seed)
    return bootstrap_ratio([sum(block) for block in blocks], [len(block) for block in blocks], seed=seed)


def _blocks(values: Sequence[float]) -> list[Sequence[float]]:
    """Neighbours, at most `BLOCK` together, in blocks as even as can be."""
    count = -(-len(values) // BLOCK)
    edges = [len(values) * at // count for at in range(count + 1)]
    return [values[low:high] for low, high in pairwise(edges)]


def _verdict(measures: Sequence[_Measure], figures: Sequence[Figure]) -> PartVerdict:
    settled = []
    for measure, figure in zip(measures, figures, strict=True):
        more, floor = figure.difference, figure.a
        if more is None or floor is None:  # not known, which hides no loss that another measure shows
            settled.append(False)
        elif more.low > measure.loss:
            return "fail"
        else:
            settled.append(more.high <= max(measure.same, floor.value))
    return "pass" if all(settled) else "inconclusive"


def _because(verdict: PartVerdict, figures: Sequence[Figure], count: int, scores: TextScores) -> str:
    kl_figure, flip_figure, *_, perplexity = figures
    divergence, floor, flipped = kl_figure.b, kl_figure.a, flip_figure.b
    if divergence is None or floor is None or flipped is None or perplexity.b is None:
        return f"{count} positions are too few for an interval; give more --context"
    taken = [figure.b for figure in figures if figure.name == _TAKEN and figure.b is not None]
    text = (
        f"mean KL divergence {divergence.value:.2g} nats a token (95 % interval {divergence.low:.2g} to"
        f" {divergence.high:.2g}), A with itself {floor.value:.2g}; the likeliest token differs at"
        f" {flipped.value * 100:.1f} % of {count:,} positions"
    )
    if taken and abs(taken[0].value - flipped.value) > 0.005:
        text += f", the token taken at {taken[0].value * 100:.1f} %"
    text += f", perplexity x{perplexity.b.value:.3f}; seen in {scores.seen_in}"
    if verdict == "inconclusive":
        text += "; above the noise floor, and not beyond what the rule calls a loss"
    return text


def _by_length(measures: Sequence[_Measure], paired: Sequence[_Position], seed: int) -> tuple[LengthRow, ...]:
    """Of the documents that run through all lengths alone: short texts are harder to predict, and end early."""
    spans: dict[tuple[int, int], list[_Position]] = defaultdict(list)
    through = [one for one in paired if one.long]
    for one in through or paired:
        spans[span_of(one.a.position)].append(one)
    rows = []
    for (low, high), within in sorted(spans.items()):
        figures = [msgspec.structs.replace(_figure(measure, within, seed), allowed=None) for measure in measures]
        last = max(one.a.position for one in within) + 1
        rows.append(
            LengthRow(low=low, high=min(high, last), count=len(within), figures=(*figures, _perplexity(within, seed)))
        )
    return tuple(rows)


def _examples(paired: Sequence[_Position]) -> tuple[Example, ...]:
    """Positions at which the arms take or expect another token, the furthest apart first."""
    apart = [one for one in paired if flips(one.a, one.b) or one.a.chosen != one.b.chosen]
    apart.sort(key=lambda one: -kl(one.a, one.b))
    return tuple(
        Example(
            id=f"{one.text}, after {one.a.position:,} tokens",
            asked=one.before,
            a=_expected(one.a),
            b=_expected(one.b),
            note=f"KL divergence {kl(one.a, one.b):.2g} nats",
        )
        for one in apart[:SHOWN]
    )


def _expected(scored: Scored) -> str:
    """The likeliest tokens with their probabilities, as in ' the' 41 %, ' a' 12 %."""
    return ", ".join(f"{_named(token)} {exp(token.logprob) * 100:.0f} %" for token in scored.top[:3])


def _named(token: Candidate) -> str:
    """A token's text with what cannot be seen written out; its id where the engine gave no text."""
    return repr(token.text) if token.text else f"token {token.id}"


def _lacks(engine: str | None, options: GateOptions) -> str | None:
    try:
        scores_of(engine)
    except CannotRun as problem:
        return str(problem)
    return None


def _collect(side: Side) -> TextScores:
    return score_texts(side)


PART = Part(
    name=NAME,
    title=TITLE,
    needs="log-probabilities of given tokens",
    evidence=TextScores,
    collect=_collect,
    judge=_judge,
    lacks=_lacks,
)
