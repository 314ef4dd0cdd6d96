"""Tasks with one right answer: made from a seed, asked after a few examples, marked exactly."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random

import msgspec


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One task. `answer` is a right answer as the examples show it."""

    text: str
    answer: str
    checks: str = ""
    """What marking needs beside the answer."""


class Program(msgspec.Struct, frozen=True):
    """An answer that is marked by running it: right when the last line that it writes is `writes`."""

    text: str
    writes: str


class Exam(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of tasks: a file in exams/, whose docstring states how answers are marked.

    A prompt is `task`, then examples and the question, each as `form` says, with a blank line between.
    """

    name: str
    title: str
    task: str
    form: str
    """How a question is put: `{}` is its text, and the answer follows."""
    levels: int
    """From 0, of which a model of 270 million parameters gets most right, to one that one of 70 billion may not."""
    make: Callable[[Random, int], Question]
    """(source of chance, level) -> a question. The same source gives the same question."""
    mark: Callable[[Question, str], bool | Program]
    """(question, what the model wrote up to a stop) -> right, wrong, or the program that tells."""
    tokens: int
    """Longest answer."""
    stop: tuple[str, ...] = ("\n",)
    """Where an answer ends."""
    examples: int = 4
    """Worked examples of the same level before the question."""


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """A question as it is sent."""

    id: str
    kind: str
    level: int
    """0 is the easiest of its kind."""
    question: Question
    prompt: str


def plain(text: str) -> str:
    """Text as answers are compared: lower case, single spaces, no quotes around it and no full stop after it."""
    return re.sub(r"\s+", " ", text).strip().strip("\"'`").rstrip(".").strip().casefold()


def cut(text: str, stop: tuple[str, ...]) -> str:
    """What an answer says before the first stop, also of a server that went on beyond it."""
    return text[: min((at for end in stop if (at := text.find(end)) >= 0), default=len(text))]


class Marked(msgspec.Struct, frozen=True, kw_only=True):
    """An answer to an item, marked."""

    id: str
    kind: str
    asked: str
    """The question, without examples and without a long text before it."""
    wanted: str
    said: str | None
    """What the model wrote, at most `MOST_KEPT` characters; None: the request failed."""
    right: bool | None
    """None: not marked."""
    why: str = ""
    """Why it was not marked, or how its program ended."""
    tokens: int | None = None
    """Length of the prompt as the engine counts it, where that is what is tested."""
    length: int | None = None
    """The length that was asked for: `tokens` is it, or up to a sentence less."""
    depth: float | None = None
    """Where in the text the fact stands: 0 at its start, 1 at its end."""


MOST_KEPT = 600
