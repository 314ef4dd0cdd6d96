"""Divergence of two distributions, and the part that judges it, on numbers whose truth is known."""

from __future__ import annotations

import random
from math import exp, log

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from kvlab import gates
from kvlab.core.divergence import flips, kl
from kvlab.core.gate import GateRule, PartFinding
from kvlab.core.scoring import Candidate, Scored
from kvlab.gates._scoring import ScoredText, Spot, TextScores, positions, span_of

RULE = GateRule()


def scored(probabilities: dict[int, float], *, true: int = 0, position: int = 10, top: int = 20) -> Scored:
    ranked = sorted(probabilities.items(), key=lambda pair: -pair[1])
    return Scored(
        position=position,
        true=true,
        logprob=log(probabilities[true]),
        top=tuple(Candidate(token, log(part), str(token)) for token, part in ranked[:top]),
        chosen=ranked[0][0],
    )


def test_a_textbook_example_both_ways() -> None:
    """Cover and Thomas, Elements of Information Theory, example 2.3.1: r = 1/2, s = 1/4."""
    p, q = scored({0: 1 / 2, 1: 1 / 2}), scored({0: 3 / 4, 1: 1 / 4})
    assert kl(p, q) / log(2) == pytest.approx(0.2075, abs=1e-4)
    assert kl(q, p) / log(2) == pytest.approx(0.1887, abs=1e-4)


def test_tokens_that_only_one_side_states_are_one_bucket() -> None:
    """Stated: {0, 1} against {0, 2}. What both state is 0; all else is one outcome: (.5, .5) against (.2, .8)."""
    p = scored({0: 0.5, 1: 0.3, 2: 0.1, 3: 0.1}, top=2)
    q = scored({0: 0.2, 1: 0.1, 2: 0.5, 3: 0.2}, top=2)
    assert kl(p, q) == pytest.approx(float(entropy([0.5, 0.5], [0.2, 0.8])))


@st.composite
def two_distributions(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    size = draw(st.integers(2, 60))
    parts = st.lists(st.floats(0.001, 1.0), min_size=size, max_size=size)
    one, two = draw(parts), draw(parts)
    return [x / sum(one) for x in one], [x / sum(two) for x in two]


@settings(deadline=None)
@given(two_distributions(), st.integers(1, 60))
def test_the_divergence_is_never_above_that_of_the_whole_distributions(
    pair: tuple[list[float], list[float]], top: int
) -> None:
    p, q = pair
    found = kl(scored(dict(enumerate(p)), top=top), scored(dict(enumerate(q)), top=top))
    assert 0 <= found <= float(entropy(p, q)) + 1e-4
    if top >= len(p):
        assert found == pytest.approx(float(entropy(p, q)), abs=1e-4)


@settings(deadline=None)
@given(two_distributions())
def test_a_distribution_does_not_diverge_from_itself(pair: tuple[list[float], list[float]]) -> None:
    p = scored(dict(enumerate(pair[0])), top=5)
    assert kl(p, p) == 0
    assert not flips(p, p)


def softmax(logits: np.ndarray) -> dict[int, float]:
    parts = np.exp(logits - logits.max())
    return {token: float(part) for token, part in enumerate(parts / parts.sum())}


def arm(noise: float, seed: int, *, taken: float = 0.0, texts: int = 8, spots: int = 30) -> TextScores:
    """Scores of one hidden model; `noise` is added to its logits, and a share `taken` takes a token at random."""
    hidden, rng, pick = np.random.default_rng(7), np.random.default_rng(seed), random.Random(seed)
    found = []
    for text in range(texts):
        kept = []
        for at in positions(spots * 20, short=False, every=False)[:spots]:
            logits = hidden.normal(0, 3, 40) + noise * rng.normal(0, 1, 40)
            one = scored(softmax(logits), true=int(hidden.integers(40)), position=at)
            if pick.random() < taken:
                one = Scored(position=at, true=one.true, logprob=one.logprob, top=one.top, chosen=pick.randrange(40))
            kept.append(Spot(scored=one, before="the words before"))
        found.append(ScoredText(id=f"t{text}", kind="prose", tokens=600, tokens_hash="h", spots=tuple(kept)))
    return TextScores(engine="vllm", seen_in="the prefill", top=20, temperature=0.0, texts=tuple(found))


def judged(first: TextScores, second: TextScores, b: TextScores) -> PartFinding:
    return gates.part("divergence").judge(first, second, b, RULE)


def test_the_same_model_has_no_divergence_and_passes() -> None:
    same = arm(0, 1)
    found = judged(same, same, same)
    assert found.verdict == "pass"
    assert [figure.b.value for figure in found.numbers if figure.b] == [0, 0, 0, 1]
    assert found.examples == ()


def test_noise_of_the_size_of_the_floor_passes_and_a_broken_model_fails() -> None:
    """Arms that each differ from the hidden model alike: B is as far from A as A is from itself."""
    assert judged(arm(0.01, 1), arm(0.01, 2), arm(0.01, 3)).verdict == "pass"
    broken = judged(arm(0.01, 1), arm(0.01, 2), arm(3.0, 3))
    assert broken.verdict == "fail"
    assert broken.examples
    small = judged(arm(0.0, 1), arm(0.0, 2), arm(0.15, 3))
    assert small.verdict == "inconclusive"
    assert "above the noise floor" in small.because


def flipped(texts: tuple[ScoredText, ...]) -> tuple[ScoredText, ...]:
    """With another likeliest token at every position."""
    replace = msgspec.structs.replace
    return tuple(
        replace(
            text,
            spots=tuple(replace(spot, scored=replace(spot.scored, top=spot.scored.top[::-1])) for spot in text.spots),
        )
        for text in texts
    )


def test_a_share_of_positions_is_of_all_of_them_alike() -> None:
    """Six positions fall into blocks of three, eight into blocks of four; every position counts once all the same."""
    short, long = arm(0, 1, texts=5, spots=8), arm(0, 1, texts=10, spots=6)
    first = msgspec.structs.replace(short, texts=(*short.texts, *long.texts[5:]))
    half = msgspec.structs.replace(short, texts=(*short.texts, *flipped(long.texts[5:])))
    share = judged(first, first, half).numbers[1].b
    assert share is not None
    assert share.value == pytest.approx(30 / 70)
    every = judged(first, first, msgspec.structs.replace(first, texts=flipped(first.texts))).numbers[1].b
    assert every is not None
    assert (every.low, every.value, every.high) == (1, 1, 1)


def test_a_noise_floor_excuses_only_what_it_is() -> None:
    """Batch noise in A: the same noise in B adds nothing, three times the noise does."""
    floor = judged(arm(0.15, 1), arm(0.15, 2), arm(0.15, 3))
    assert floor.numbers[0].difference is not None
    assert floor.numbers[0].difference.low <= 0 <= floor.numbers[0].difference.high
    more = judged(arm(0.15, 1), arm(0.15, 2), arm(0.6, 3)).numbers[0].difference
    assert more is not None
    assert more.low > 0


def test_a_server_that_takes_other_tokens_fails_though_it_expects_the_same() -> None:
    found = judged(arm(0, 1), arm(0, 2), arm(0, 3, taken=0.5))
    by_name = {figure.name: figure.b for figure in found.numbers}
    assert found.verdict == "fail"
    assert by_name["mean KL divergence"] is not None
    assert by_name["mean KL divergence"].value == 0
    assert by_name["token taken differs"] is not None
    assert by_name["token taken differs"].value > 0.3


def test_a_lost_log_probability_is_the_ratio_of_the_perplexities() -> None:
    """The true token's logprob falls by log 2 everywhere: the perplexity doubles."""
    a = arm(0, 1)
    texts = []
    for text in a.texts:
        spots = [
            Spot(
                scored=Scored(
                    position=spot.scored.position,
                    true=spot.scored.true,
                    logprob=spot.scored.logprob - log(2),
                    top=spot.scored.top,
                    chosen=spot.scored.chosen,
                ),
                before="",
            )
            for spot in text.spots
        ]
        texts.append(ScoredText(id=text.id, kind=text.kind, tokens=600, tokens_hash="h", spots=tuple(spots)))
    b = TextScores(engine="vllm", seen_in="x", top=20, temperature=0.0, texts=tuple(texts))
    ratio = judged(a, a, b).numbers[-1].b
    assert ratio is not None
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((2, 2, 2))


def test_another_tokenizer_fails_and_a_floor_that_does_not_pair_is_inconclusive() -> None:
    a, other = arm(0, 1), arm(0, 1)
    texts = [ScoredText(id=t.id, kind=t.kind, tokens=9, tokens_hash="else", spots=t.spots) for t in other.texts]
    b = TextScores(engine="vllm", seen_in="x", top=20, temperature=0.0, texts=tuple(texts))
    assert judged(a, a, b).verdict == "fail"
    assert judged(a, b, a).verdict == "inconclusive"


def test_losses_that_grow_with_the_context_show_in_its_rows() -> None:
    """B is A before position 512 and far from it after."""
    a, far = arm(0, 1), arm(1.5, 2)
    texts = tuple(
        ScoredText(
            id=one.id,
            kind=one.kind,
            tokens=600,
            tokens_hash="h",
            spots=tuple(x if x.scored.position < 512 else y for x, y in zip(one.spots, two.spots, strict=True)),
        )
        for one, two in zip(a.texts, far.texts, strict=True)
    )
    b = TextScores(engine="vllm", seen_in="x", top=20, temperature=0.0, texts=texts)
    rows = {row.low: row.figures[0].b for row in judged(a, a, b).by_length}
    assert rows[0] is not None and rows[128] is not None and rows[512] is not None  # noqa: PT018
    assert rows[0].value == rows[128].value == 0
    assert rows[512].low > 0


def test_rows_by_length_are_of_the_documents_that_run_through_all_lengths() -> None:
    """Short texts would fill the first rows with harder tokens."""
    whole = arm(0, 1)
    texts = [msgspec.structs.replace(text, long=i < 4) for i, text in enumerate(whole.texts)]
    a = msgspec.structs.replace(whole, texts=tuple(texts))
    found = judged(a, a, a)
    assert sum(row.count for row in found.by_length) * 2 == sum(len(text.spots) for text in a.texts)


def test_positions_are_spread_over_every_span() -> None:
    found = positions(2000, short=False, every=False)
    assert len(found) == len(set(found)) == 4 * 6
    assert sorted({span_of(at) for at in found}) == [(0, 128), (128, 512), (512, 1024), (1024, 2048)]
    assert all(8 <= at < 2000 for at in found)
    assert positions(40, short=True, every=False)[-1] < 40
    assert len(positions(100_000, short=False, every=True)) == 10 * 64  # 0, 128, 512, 1k, 2k ... 64k


@settings(deadline=None)
@given(st.integers(32, 300_000), st.booleans(), st.booleans())
def test_positions_lie_in_the_text(tokens: int, short: bool, every: bool) -> None:
    found = positions(tokens, short=short, every=every)
    assert found == tuple(sorted(set(found)))
    assert 8 <= found[0] <= found[-1] < tokens


def test_perplexity_and_probabilities_are_of_natural_logarithms() -> None:
    assert sum(exp(token.logprob) for token in scored({0: 0.25, 1: 0.75}).top) == pytest.approx(1)


def test_tokens_taken_are_compared_where_they_are_shown() -> None:
    """vLLM shows them in long texts only: here, from position 128 on."""

    def hidden(scores: TextScores) -> TextScores:
        texts = []
        for text in scores.texts:
            spots = [
                spot
                if spot.scored.position >= 128
                else Spot(scored=msgspec.structs.replace(spot.scored, chosen=None), before="")
                for spot in text.spots
            ]
            texts.append(msgspec.structs.replace(text, spots=tuple(spots)))
        return msgspec.structs.replace(scores, texts=tuple(texts))

    a, b = hidden(arm(0, 1)), hidden(arm(0, 3, taken=0.5))
    found = judged(a, a, b)
    assert found.verdict == "fail"
    rows = {row.low: {figure.name: figure.b for figure in row.figures} for row in found.by_length}
    assert rows[0]["token taken differs"] is None
    assert rows[128]["token taken differs"] is not None
