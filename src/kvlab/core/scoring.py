"""Log-probabilities of given texts, as an engine states them: what comes next after each of their beginnings.

An engine's logprobs.py holds one `ScorePart`. `Scores.score` is a generator that does no input or output itself: it
yields what to post and is sent the decoded answer, so that each engine can ask in the way that is cheapest for it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import NamedTuple, TypeAlias

import msgspec


class Candidate(NamedTuple):
    """A token that may come next: its id, its natural-log probability before any sampling setting, its text."""

    id: int
    logprob: float
    text: str = ""


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine expects at one position of a text, given all the tokens before it."""

    position: int
    """Tokens before it."""
    true: int
    """The token that stands there."""
    logprob: float
    """Of that token."""
    top: tuple[Candidate, ...]
    """The likeliest tokens, the first first."""
    chosen: int | None = None
    """The token that the engine takes there at the temperature asked; None when its answer does not show that."""


class ScoreAsk(NamedTuple):
    """One text to score: its token ids and the positions of it that count, ascending, none of them 0."""

    model: str
    ids: list[int]
    positions: tuple[int, ...]
    top: int
    temperature: float


class Post(NamedTuple):
    """One request; `scores`: how many positions its answer settles, for a progress display."""

    path: str
    body: dict[str, object]
    scores: int = 0


Scoring: TypeAlias = Generator[Post, object, tuple[Scored, ...]]


class ScorePart(msgspec.Struct, frozen=True):
    """logprobs.py: how the engine scores given tokens, or why it cannot."""


class NoScores(ScorePart, frozen=True):
    """An engine that cannot."""

    because: str
    """What it lacks, after the engine's name ("states no log-probabilities of a prompt")."""


class Scores(ScorePart, frozen=True, kw_only=True):
    """An engine that scores given tokens."""

    score: Callable[[ScoreAsk], Scoring]
    """Raises ServerRefused for an answer that does not hold what was asked for."""
    most_top: int
    """Likeliest tokens that it states at a position unless started otherwise."""
    whole: int
    """Tokens up to which a text is scored in one request, so that more positions cost nothing; 0: none is."""
    seen_in: str
    """Which work of the engine its numbers come from, in a few words."""
