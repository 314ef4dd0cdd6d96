"""The quality gate: answers at temperature 0 from arm A twice and from arm B, judged against the noise floor."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import msgspec

from kvlab.core.errors import BadInput, EngineFailed
from kvlab.core.performance import share
from kvlab.core.quality import Agreement, Divergence, Interval, Quality, QualityPrompt
from kvlab.core.statistics import bootstrap_interval, wilson

SHOWN = 12
"""Diverging pairs kept with their texts."""
FEWEST = 10
"""Prompts that must be answered in all three sets before a verdict is given."""
MOST_FAILED = 0.2
"""Share of prompts that may fail: beyond it, the answers that are left may be the easy ones."""
BLUNT = 0.5
"""Identical share of arm A with itself below which the gate cannot see small losses."""
# Scripts that put no spaces between words: each character counts as one.
_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\s\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, or why there is none (`error`)."""

    prompt_id: str
    kind: str
    prompt: str
    text: str | None
    error: str | None = None
    output_tokens: int | None = None
    finish_reason: str | None = None


class Sent(NamedTuple):
    """How the prompts are sent: to which endpoint, and at which temperature."""

    chat: bool = False
    temperature: float = 0.0


GREEDY = Sent()


def collect_answers(
    url: str,
    prompts: Sequence[QualityPrompt],
    *,
    max_tokens: int,
    concurrency: int = 1,
    sent: Sent = GREEDY,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Answer, ...]:
    """The server's answers with a fixed seed, at temperature 0 unless `sent` says otherwise, in the prompts' order.

    `concurrency` above 1 lets requests share a batch, which changes the order of floating-point sums and so the
    noise floor. `progress` is told (done, total). A request that fails becomes an answer with its `error`.

    Raises ServerRefused when the server cannot be reached or answers nothing at all, BadInput for settings that cannot
    be sent.
    """
    from kvlab.load.runner import run_load
    from kvlab.load.spec import LoadSpec, Prompt

    if max_tokens < 1:
        raise BadInput(f"max_tokens {max_tokens} must be at least 1")
    spec = LoadSpec(
        concurrency=concurrency,
        endpoint="chat" if sent.chat else "completions",
        ignore_eos=False,
        temperature=sent.temperature,
        keep_text=True,
        extra={"seed": 0},
    )
    load = [Prompt(id=prompt.id, output_tokens=max_tokens, text=prompt.prompt) for prompt in prompts]
    result = run_load(url, load, spec, progress=progress and (lambda at: progress(at.done, at.total)))
    return tuple(
        Answer(
            prompt_id=prompt.id,
            kind=prompt.kind,
            prompt=prompt.prompt,
            text=None if row.error else row.text,
            error=row.error,
            output_tokens=row.output_tokens,
            finish_reason=row.finish_reason,
        )
        for prompt, row in zip(prompts, result.rows, strict=True)
    )


def judge_quality(
    a_first: Sequence[Answer], a_second: Sequence[Answer], b: Sequence[Answer], *, max_tokens: int, seed: int
) -> Quality:
    """Arm B's answers against arm A's, beside arm A's against its own after a restart.

    Both comparisons use `a_first` as the reference, so a prompt's two shared prefixes pair. B is below the noise floor
    only if the 95 % interval of the mean paired difference (shared prefix with B less shared prefix with A again) lies
    below zero. Prompts that failed in either set of a comparison are left out of it and counted in `failed`.

    Raises BadInput when the sets answer different prompts, EngineFailed when a comparison has no answered prompt.
    """
    if not [x.prompt_id for x in a_first] == [x.prompt_id for x in a_second] == [x.prompt_id for x in b]:
        raise BadInput("the three sets of answers belong to different prompts; collect them again with the same file")
    floor = agreement(a_first, a_second, seed=seed)
    candidate = agreement(a_first, b, seed=seed)
    change = _change(a_first, a_second, b, seed)
    verdict, because = _verdict(a_first, _answered(a_first, a_second, b), (floor, candidate), change)
    return Quality(
        max_tokens=max_tokens,
        noise_floor=floor,
        candidate=candidate,
        change=change,
        by_kind=_by_kind(a_first, a_second, b),
        divergences=_divergences(a_first, b),
        verdict=verdict,
        because=because,
    )


def shared_prefix(a: str, b: str) -> float:
    """Words that agree from the start, as a share of the longer answer, 0..1. Two empty answers agree wholly."""
    one, two = _WORD.findall(a), _WORD.findall(b)
    same = 0
    for left, right in zip(one, two, strict=False):
        if left != right:
            break
        same += 1
    longest = max(len(one), len(two))
    return same / longest if longest else 1.0


def agreement(one: Sequence[Answer], two: Sequence[Answer], *, seed: int) -> Agreement:
    """Identical answers (Wilson interval) and average shared prefix (bootstrap over prompts) of two sets.

    With fewer than 5 pairs the interval of the average is all that is possible: 0 to 1. Raises EngineFailed when no
    prompt was answered in both sets.
    """
    pairs = _texts(one, two)
    failed = len(one) - len(pairs)
    if not pairs:
        why = next((answer.error for answer in (*one, *two) if answer.error), "the prompts list is empty")
        raise EngineFailed(f"none of the {len(one)} quality prompts was answered in both sets ({why})")
    shares = [shared_prefix(a, b) for a, b in pairs.values()]
    mean = sum(shares) / len(shares)
    return Agreement(
        prompts=len(one),
        failed=failed,
        identical=wilson(sum(a == b for a, b in pairs.values()), len(pairs)),
        shared_prefix=bootstrap_interval(shares, "mean", seed=seed) or Interval(mean, 0.0, 1.0),
    )


def _texts(one: Sequence[Answer], two: Sequence[Answer]) -> dict[int, tuple[str, str]]:
    """Position of each prompt answered in both sets -> both texts."""
    pairs = enumerate(zip(one, two, strict=True))
    return {i: (a.text, b.text) for i, (a, b) in pairs if a.text is not None and b.text is not None}


def _answered(a_first: Sequence[Answer], a_second: Sequence[Answer], b: Sequence[Answer]) -> list[int]:
    """Positions of the prompts that were answered in all three sets."""
    return sorted(_texts(a_first, a_second).keys() & _texts(a_first, b).keys())


def _change(a_first: Sequence[Answer], a_second: Sequence[Answer], b: Sequence[Answer], seed: int) -> Interval | None:
    again, other = _texts(a_first, a_second), _texts(a_first, b)
    changes = [shared_prefix(*other[i]) - shared_prefix(*again[i]) for i in _answered(a_first, a_second, b)]
    return bootstrap_interval(changes, "mean", seed=seed)


def _verdict(
    a_first: Sequence[Answer], both: Sequence[int], found: tuple[Agreement, Agreement], change: Interval | None
) -> tuple[Literal["within the noise floor", "below the noise floor", "inconclusive"], str]:
    floor, candidate = found
    if max(floor.failed, candidate.failed) > MOST_FAILED * floor.prompts:
        return "inconclusive", (
            f"{floor.failed} prompts failed in arm A's two runs and {candidate.failed} in A against B,"
            f" of {floor.prompts}; the answers that are left may be the easy ones"
        )
    if len(both) < FEWEST:
        return "inconclusive", f"{len(both)} prompts were answered in all three runs; a verdict needs {FEWEST}"
    empty = sum(not a_first[i].text for i in both)
    if empty * 2 > len(both):
        return "inconclusive", (
            f"{empty} of {len(both)} answers of arm A are empty: the model ends at once on these prompts"
        )
    assert change is not None  # FEWEST is above the bootstrap's minimum
    counts = (
        f"{share(candidate.identical.value)} of B's answers are identical to A's,"
        f" {share(floor.identical.value)} of A's own after a restart; the shared prefix changes by"
        f" {change.value * 100:+.1f} points (95 % interval {change.low * 100:+.1f} to {change.high * 100:+.1f})"
    )
    if change.high < 0:
        return "below the noise floor", counts
    if floor.identical.value < BLUNT:
        counts += "; A agrees with itself so seldom that a small loss cannot show: send one request at a time"
    return "within the noise floor", counts


def _by_kind(
    a_first: Sequence[Answer], a_second: Sequence[Answer], b: Sequence[Answer]
) -> dict[str, tuple[float, float]]:
    """Kinds in the order of the prompts; a kind without an answered prompt in either comparison is left out."""
    again, other = _texts(a_first, a_second), _texts(a_first, b)
    found = {}
    for kind in dict.fromkeys(answer.kind for answer in a_first):
        members = [i for i, answer in enumerate(a_first) if answer.kind == kind]
        shares = []
        for texts in (again, other):
            same = [texts[i][0] == texts[i][1] for i in members if i in texts]
            if same:
                shares.append(sum(same) / len(same))
        if len(shares) == 2:
            found[kind] = (shares[0], shares[1])
    return found


def _divergences(a: Sequence[Answer], b: Sequence[Answer]) -> tuple[Divergence, ...]:
    """Pairs that differ, the earliest parting first, in the order of the prompts where they part alike."""
    found = [
        Divergence(
            prompt_id=a[i].prompt_id,
            kind=a[i].kind,
            prompt=a[i].prompt,
            shared_prefix=shared_prefix(one, two),
            a=one,
            b=two,
        )
        for i, (one, two) in _texts(a, b).items()
        if one != two
    ]
    return tuple(sorted(found, key=lambda pair: pair.shared_prefix)[:SHOWN])
