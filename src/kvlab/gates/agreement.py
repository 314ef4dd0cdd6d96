"""Answers at temperature 0: how many are identical, and how far they run together, against A's own after a restart."""

from __future__ import annotations

from pathlib import Path

from kvlab.answers import BLUNT, Answer, Sent, collect_answers, judge_quality
from kvlab.core.gate import Example, Figure, GateRule, Part, PartFinding, PartVerdict, Side

NAME, TITLE = "agreement", "Answers at temperature 0"
Answers = tuple[Answer, ...]


def _collect(side: Side) -> Answers:
    from kvlab import prompts

    options = side.options
    return collect_answers(
        side.url,
        prompts.load(None if options.prompts is None else Path(options.prompts)),
        max_tokens=options.max_tokens,
        concurrency=options.concurrency,
        sent=Sent(temperature=side.temperature),
        progress=side.progress,
    )


def _judge(a_first: Answers, a_second: Answers, b: Answers, rule: GateRule) -> PartFinding:
    found = judge_quality(a_first, a_second, b, max_tokens=0, seed=rule.seed)
    floor, candidate, change = found.noise_floor, found.candidate, found.change
    assert floor is not None  # judge_quality gives both
    assert candidate is not None
    verdict: PartVerdict = "inconclusive"
    because = found.because
    if found.verdict == "within the noise floor" and floor.identical.value >= BLUNT:
        verdict = "pass"
    elif found.verdict == "below the noise floor" and change is not None:
        if change.high < -rule.prefix_loss:
            verdict = "fail"
        else:
            because += "; other answers need not be worse ones: read those that part"
    return PartFinding(
        name=NAME,
        title=TITLE,
        verdict=verdict,
        because=because,
        numbers=(
            Figure(name="identical answers", unit="share", a=floor.identical, b=candidate.identical),
            Figure(
                name="shared prefix",
                unit="share",
                a=floor.shared_prefix,
                b=candidate.shared_prefix,
                difference=change,
                allowed=-rule.prefix_loss,
            ),
        ),
        examples=tuple(Example(id=d.prompt_id, asked=d.prompt, a=d.a, b=d.b) for d in found.divergences),
    )


PART = Part(
    name=NAME,
    title=TITLE,
    needs="an OpenAI-compatible completions endpoint",
    evidence=Answers,
    collect=_collect,
    judge=_judge,
)
