"""The quality gate alone: arm A, arm B, and arm A again after a restart, on the same prompts."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from kvlab.answers import Answer, collect_answers, judge_quality
from kvlab.core.errors import BadInput, ServerRefused
from kvlab.core.plan import Plan
from kvlab.core.quality import Quality, QualityPrompt
from kvlab.launch import DYING_SECONDS, start
from kvlab.load.address import base_url
from kvlab.preflight import check_installed
from kvlab.settings import ArmName, OnStep, Step

SEED = 0


class How(NamedTuple):
    """Tokens per answer, requests in flight, where the engines' logs go, and who is told of progress."""

    max_tokens: int
    concurrency: int
    logs: Path
    on_step: OnStep


def gate_plans(plans: dict[ArmName, Plan], prompts: tuple[QualityPrompt, ...], *, how: How) -> Quality:
    """Starts A, B and A again, one after another, and judges B's answers against A's noise floor.

    Raises EngineFailed when an engine is not installed, does not start or dies, and BadInput when both plans are the
    same. Whatever was started is stopped.
    """
    if plans["a"].ask == plans["b"].ask:
        raise BadInput("both arms are the same configuration; say what B changes (--b kv-dtype=q8_0)")
    check_installed(plans.values())

    def answers(number: int, arm: ArmName) -> tuple[Answer, ...]:
        step = Step(number, 3, f"answers of arm {arm.upper()}")
        with start(plans[arm], how.logs / f"engine-{number + 1}-{arm}.log") as server:
            try:
                return _answers(server.url, prompts, step, how)
            except ServerRefused as error:
                raise server.died(DYING_SECONDS) or error from None

    first, candidate, second = answers(0, "a"), answers(1, "b"), answers(2, "a")
    return judge_quality(first, second, candidate, max_tokens=how.max_tokens, seed=SEED)


def gate_servers(a: str, b: str, prompts: tuple[QualityPrompt, ...], *, how: How) -> Quality:
    """The same on two servers that run already. A answers twice without a restart, which the floor cannot see."""
    if base_url(a) == base_url(b):
        raise BadInput("both arms are the same server; give the address of A and the address of B")
    steps = [(url, Step(number, 3, f"answers of {base_url(url)}")) for number, url in enumerate((a, b, a))]
    first, candidate, second = (_answers(url, prompts, step, how) for url, step in steps)
    return judge_quality(first, second, candidate, max_tokens=how.max_tokens, seed=SEED)


def _answers(url: str, prompts: tuple[QualityPrompt, ...], step: Step, how: How) -> tuple[Answer, ...]:
    how.on_step(step)

    def into(done: int, total: int) -> None:
        how.on_step(Step(step.number, step.steps, step.text, done, total))

    return collect_answers(url, prompts, max_tokens=how.max_tokens, concurrency=how.concurrency, progress=into)
