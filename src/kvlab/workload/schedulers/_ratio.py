"""SGLang's new_token_ratio: the share of its remaining answer that is kept free for each running request.

It starts at 0.7 times --schedule-conservativeness, falls to 0.14 of that within 600 decode steps, and is set to what
the running requests suggest when the pool was full (new_token_ratio_tracker.py, environ.py of SGLang 0.5.18).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

_INITIAL = 0.7
"""SGLANG_INIT_NEW_TOKEN_RATIO."""
_LEAST = 0.14
"""SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR, of the initial one."""
_STEPS = 600
"""SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS."""
AHEAD = 20
"""SGLANG_RETRACT_DECODE_STEPS: tokens of each request that remains, which a retraction looks ahead."""


class Answering(Protocol):
    """A request: tokens that it may answer, and those that it has."""

    @property
    def answer(self) -> int: ...

    @property
    def done(self) -> int: ...


class NewTokenRatio:
    """The ratio as it is `now`."""

    def __init__(self, conservativeness: float = 1.0) -> None:
        self.initial = min(_INITIAL * conservativeness, 1.0)
        self.least = min(_LEAST * self.initial, 1.0)
        self.now = self.initial

    def decay(self, steps: int) -> None:
        """After so many decode steps without a retraction."""
        self.now = max(self.now - steps * (self.initial - self.least) / _STEPS, self.least)

    def retracted(self, running: Sequence[Answering]) -> None:
        """After a retraction that has left these running."""
        answered, asked = sum(job.done for job in running), sum(job.answer for job in running)
        self.now = min(1.0, (answered + AHEAD * len(running)) / (asked + 1))

    def reset(self) -> None:
        """Nothing runs and nothing waits."""
        self.now = self.initial
