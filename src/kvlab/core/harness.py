"""One run of lm-evaluation-harness on one server, as its result files state it."""

from __future__ import annotations

import msgspec


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One number of a task: a metric under a filter. A task has several; its first is the one that is judged."""

    task: str
    metric: str
    filter: str
    """How answers were taken out of what the model wrote; "none" where they were not."""
    value: float
    stderr: float | None
    """The harness's own standard error; None where it states none."""
    higher_is_better: bool | None
    samples: int | None
    """Documents that the number is over."""


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One document under a task's first metric: what was asked, wanted and said, cut to a readable length."""

    id: str
    """Task and number of the document."""
    task: str
    hash: str
    """Of the document and the prompt made of it, by the harness: equal in two runs that asked the same."""
    value: float
    asked: str
    wanted: str
    said: str


class HarnessRun(msgspec.Struct, frozen=True, kw_only=True):
    """What one run gave."""

    version: str | None
    """Of lm-evaluation-harness."""
    scores: tuple[Score, ...]
    """By task, the first of each task the one that is judged."""
    samples: tuple[Sample, ...]
    """Under the first metric of each task, where the harness kept them as numbers."""
    requests: tuple[str, ...]
    """Types of requests that the tasks made: generate_until, loglikelihood, multiple_choice ..."""

    def judged(self) -> dict[str, Score]:
        """The first number of every task."""
        found: dict[str, Score] = {}
        for score in self.scores:
            found.setdefault(score.task, score)
        return found
