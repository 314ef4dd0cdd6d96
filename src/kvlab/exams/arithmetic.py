"""Whole numbers: from ten times one, over sums and brackets, to products of five digits by four.

Marked right when the number before anything else is the exact result: spaces and thousands commas in it do not count.
"""

from __future__ import annotations

import re
from random import Random

from kvlab.core.exam import Exam, Question

_NUMBER = re.compile(r"\s*(-?\d[\d,]*)(?![\d.]*\d)")


def _make(source: Random, level: int) -> Question:
    def number(low: int, high: int) -> int:
        return source.randint(low, high)

    if level == 0:
        a, b = number(101, 9_999), 10
        text, result = f"{a} * {b}", a * b
    elif level == 1:
        a, b = number(11, 9_999), 1
        text, result = f"{a} + {b}", a + b
    elif level == 2:
        a, b = number(12, 99), number(2, 99)
        text, result = f"{a} + {b}", a + b
    elif level == 3:
        a, b = number(100, 999), number(11, 99)
        text, result = f"{a} - {b}", a - b
    elif level == 4:
        a, b = number(102, 399), number(3, 9)
        text, result = f"{a} * {b}", a * b
    elif level == 5:
        a, b, c, d = number(11, 99), number(11, 99), number(3, 9), number(100, 999)
        text, result = f"({a} + {b}) * {c} - {d}", (a + b) * c - d
    else:
        a, b = number(10_000, 99_999), number(1_000, 9_999)
        text, result = f"{a} * {b}", a * b
    return Question(text=text, answer=str(result))


def _mark(question: Question, answer: str) -> bool:
    found = _NUMBER.match(answer)
    return found is not None and found[1].replace(",", "") == question.answer


EXAM = Exam(
    name="arithmetic",
    title="Arithmetic",
    task="Exact results.",
    form="{} = ",
    levels=7,
    make=_make,
    mark=_mark,
    tokens=16,
)
