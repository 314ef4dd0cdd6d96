"""A small Python function, run on arguments that the prompt does not show.

Marked right when it returns the right value for each, compared as Python writes it; an error, a limit of the sandbox or
one wrong value is wrong.
"""

from __future__ import annotations

from random import Random

from kvlab.core.exam import Exam, Program, Question
from kvlab.exams._functions import LEVELS, arguments, one

_CALLS = 8


def _make(source: Random, level: int) -> Question:
    function = one(source, level)
    calls = arguments(source, function.takes, _CALLS)
    checks = f"print(repr([f(x) for x in {calls!r}]))\n{[function.does(x) for x in calls]!r}"
    return Question(text=function.wants, answer=f"\n    {function.body}", checks=checks)


def _mark(question: Question, answer: str) -> Program:
    call, _, writes = question.checks.rpartition("\n")
    return Program(f"def f(x):{answer}\n\n{call}\n", writes)


EXAM = Exam(
    name="code",
    title="Code",
    task="# Python functions.",
    form="# Return {}.\ndef f(x):",
    levels=LEVELS,
    make=_make,
    mark=_mark,
    tokens=128,
    stop=("\n\n", "\n#", "\ndef "),
)
