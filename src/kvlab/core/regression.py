"""Whether what was frozen still holds: the rule of `kvlab verify`.

In this order:

1. A regression, if one of the four metrics that decide is worse by the rule of `compare_runs` (frozen runs as arm A,
   new runs as arm B), if more requests fail than chance explains (Fisher's exact test at 5 %), if the answers are below
   the noise floor, or if the log contradicts the plan in a line in which it did not when it was frozen.
2. Inconclusive, if throughput or end-to-end latency could not be told from noise, or the prompts were not the same.
3. Otherwise no regression was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from kvlab.core.comparison import ComparisonRow
from kvlab.core.performance import DECISIVE, PRIMARY, percent
from kvlab.core.quality import Quality
from kvlab.core.record import Run
from kvlab.core.remarks import TITLES, sentence
from kvlab.core.statistics import CHANCE, fisher

Code = Literal["no_regression", "regression", "inconclusive"]


class VerifyVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """One word, one sentence, and every reason."""

    code: Code
    text: str
    because: tuple[str, ...]


class Evidence(NamedTuple):
    """What was seen again. `rows`: frozen runs as A, new ones as B; empty when nothing had been measured."""

    rows: Sequence[ComparisonRow]
    frozen: Sequence[Run]
    runs: Sequence[Run]
    contradicted: Sequence[str]
    """Lines of the plan that the log contradicts, and did not before."""
    quality: Quality | None
    same_prompts: bool | None
    """None: nothing was sent."""


def judge(evidence: Evidence) -> VerifyVerdict:
    """The verdict by the rule above."""
    primary = [row for row in evidence.rows if row.metric in PRIMARY]
    reasons = [sentence(row) for row in primary]
    worse = [f"{TITLES[row.metric]} ({percent(row.change or 0)})" for row in primary if row.verdict == "worse"]
    if failing := _failures(evidence.frozen, evidence.runs):
        fails_more, text = failing
        reasons.insert(0, text)
        worse += ["failed requests"] if fails_more else []
    if evidence.quality is not None:
        reasons.append(f"answers {evidence.quality.verdict}: {evidence.quality.because}")
        worse += ["answers"] if evidence.quality.verdict == "below the noise floor" else []
    if evidence.contradicted:
        reasons.insert(0, f"the log contradicts the plan, as it did not before: {', '.join(evidence.contradicted)}")
        worse += ["log against plan"]
    if evidence.same_prompts is False:
        reasons.insert(0, "the prompts are not those that were frozen: the engine's tokenizer or the data set changed")
    if worse:
        text = f"Worse than frozen: {', '.join(worse)}."
        return VerifyVerdict(code="regression", text=text, because=tuple(reasons))
    unsure = _unsure(evidence, primary)
    if unsure is not None:
        return VerifyVerdict(code="inconclusive", text=unsure, because=tuple(reasons))
    if evidence.same_prompts is None:
        text = "The plan was made again, the engine started, and its log agrees; nothing had been measured."
        return VerifyVerdict(code="no_regression", text=text, because=tuple(reasons))
    better = [f"{TITLES[row.metric]} ({percent(row.change or 0)})" for row in primary if row.verdict == "better"]
    text = "Nothing is worse than frozen beyond the noise" + (f"; better: {', '.join(better)}." if better else ".")
    return VerifyVerdict(code="no_regression", text=text, because=tuple(reasons))


def _unsure(evidence: Evidence, primary: Sequence[ComparisonRow]) -> str | None:
    """Why nothing can be said; None when something can."""
    if evidence.same_prompts is None:
        return None
    told = {row.metric for row in primary if row.verdict != "inconclusive"}
    if not primary:
        return "The runs cannot be compared: no request was answered in every run."
    if not told.issuperset(DECISIVE):
        return "The noise is too large to tell the new runs from the frozen ones; repeat with more --runs."
    if evidence.same_prompts is False:
        return "Nothing is worse, but the prompts are not those that were frozen."
    if evidence.quality is not None and evidence.quality.verdict == "inconclusive":
        return "Nothing is worse in performance; the answers could not be judged."
    return None


def _failures(frozen: Sequence[Run], runs: Sequence[Run]) -> tuple[bool, str] | None:
    """Whether more requests fail than chance explains, in words; None when none fails."""
    before = sum(run.failed for run in frozen), sum(run.completed for run in frozen)
    after = sum(run.failed for run in runs), sum(run.completed for run in runs)
    if not after[0]:
        return None
    text = f"{after[0]} of {sum(after)} requests failed, {before[0]} of {sum(before)} when it was frozen"
    if fisher(before, after) >= CHANCE or after[0] * sum(before) <= before[0] * sum(after):
        return False, f"{text}, which may be chance; latencies compare the prompts that were answered in every run"
    return True, f"{text}: more than chance explains"
