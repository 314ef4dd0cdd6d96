"""Small functions as they are asked for: what to return, a body that does, and the same in Python for the checks."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple


class Function(NamedTuple):
    """`wants` continues "Return". `body` is right. `does` gives the values to check against."""

    wants: str
    body: str
    does: Callable[[Any], Any]
    takes: str = "numbers"
    """Kind of its argument: numbers, words or one number."""


def one(source: Random, level: int) -> Function:
    """A function of that level, its constants drawn."""
    small, large = source.randint(2, 9), source.randint(2, 99)
    return source.choice(_LEVELS[level])(small, large)


def arguments(source: Random, takes: str, count: int) -> list[Any]:
    """Values to call a function with."""
    if takes == "number":
        return source.sample(range(12, 5000), count)
    if takes == "words":
        return [" ".join(_word(source) for _ in range(source.randint(3, 8))) for _ in range(count)]
    return [[source.randint(-20, 40) for _ in range(source.randint(4, 9))] for _ in range(count)]


def _word(source: Random) -> str:
    return "".join(source.choice("abcdeghilmnoprstu") for _ in range(source.randint(1, 9)))


def _plus(k: int, m: int) -> Function:
    return Function(f"the sum of x plus {m}", f"return sum(x) + {m}", lambda x: sum(x) + m)


def _times(k: int, m: int) -> Function:
    return Function(f"the largest of x times {m}", f"return max(x) * {m}", lambda x: max(x) * m)


def _less(k: int, m: int) -> Function:
    return Function(f"the length of x minus {m}", f"return len(x) - {m}", lambda x: len(x) - m)


def _ends(k: int, m: int) -> Function:
    return Function(
        f"{k} times the first of x plus {m} times the last",
        f"return {k} * x[0] + {m} * x[-1]",
        lambda x: k * x[0] + m * x[-1],
    )


def _above(k: int, m: int) -> Function:
    return Function(
        f"the items of x that are greater than {k}, each plus {m}",
        f"return [i + {m} for i in x if i > {k}]",
        lambda x: [i + m for i in x if not i <= k],
    )


def _divisible(k: int, m: int) -> Function:
    return Function(
        f"how many items of x are divisible by {k}, plus {m}",
        f"return sum(i % {k} == 0 for i in x) + {m}",
        lambda x: len([i for i in x if i // k * k == i]) + m,
    )


def _squares(k: int, m: int) -> Function:
    return Function(
        f"the sum of the squares of the items of x below {m}, times {k}",
        f"return {k} * sum(i * i for i in x if i < {m})",
        lambda x: sum(k * i**2 for i in x if i < m),
    )


def _long_words(k: int, m: int) -> Function:
    return Function(
        f"{m} plus the number of letters in all words of x that have more than {k} letters",
        f"return {m} + sum(len(w) for w in x.split() if len(w) > {k})",
        lambda x: m + len("".join(word for word in x.split(" ") if word[k:])),
        "words",
    )


def _cut_words(k: int, m: int) -> Function:
    mark = "-_+/.,"[m % 6]
    return Function(
        f"the words of x in reverse order, each cut after {k} letters, joined by {mark!r}",
        f"return {mark!r}.join(w[:{k}] for w in reversed(x.split()))",
        lambda x: mark.join([word[:k] for word in x.split()][::-1]),
        "words",
    )


def _digits(k: int, m: int) -> Function:
    return Function(
        f"{m} times the sum of the digits of x in base {k}",
        f"s = 0\n    while x:\n        s += x % {k}\n        x //= {k}\n    return {m} * s",
        lambda x: m * sum(x // k**place % k for place in range(14)),
        "number",
    )


def _differences(k: int, m: int) -> Function:
    return Function(
        f"for each two neighbouring items of x, the later one less {m} times the one before, as a list",
        f"return [b - {m} * a for a, b in zip(x, x[1:])]",
        lambda x: [x[i + 1] - m * x[i] for i in range(len(x) - 1)],
    )


def _shifted(k: int, m: int) -> Function:
    places = m % 24 + 2
    return Function(
        f"x with each letter moved {places} places on in the alphabet, from z on to a, and spaces kept",
        f"return ''.join(c if c == ' ' else chr((ord(c) - 97 + {places}) % 26 + 97) for c in x)",
        lambda x: x.translate({97 + i: 97 + (i + places) % 26 for i in range(26)}),
        "words",
    )


def _rising(k: int, m: int) -> Function:
    return Function(
        f"{m} plus the length of the longest run of neighbouring items of x in which each is greater than the last",
        "best = run = 1\n    for a, b in zip(x, x[1:]):\n        run = run + 1 if b > a else 1\n"
        f"        best = max(best, run)\n    return best + {m}",
        lambda x: m + max(n for n in range(1, len(x) + 1) if any(_rises(x[i : i + n], n) for i in range(len(x)))),
    )


def _rises(part: list[int], length: int) -> bool:
    return len(part) == length and part == sorted(set(part))


def _best_part(k: int, m: int) -> Function:
    return Function(
        f"{m} plus the largest sum of at most {k} neighbouring items of x, at least one",
        f"return {m} + max(sum(x[i:j]) for i in range(len(x)) for j in range(i + 1, min(i + {k}, len(x)) + 1))",
        lambda x: m + max(sum(x[i : i + n]) for n in range(1, k + 1) for i in range(len(x) - n + 1)),
    )


def _coins(k: int, m: int) -> Function:
    large = m + 9
    return Function(
        f"in how many ways x can be paid with coins of 1, {k} and {large}, in any order",
        f"ways = [1] + [0] * x\n    for c in (1, {k}, {large}):\n        for n in range(c, x + 1):\n"
        "            ways[n] += ways[n - c]\n    return ways[x]",
        lambda x: sum((x - big * large) // k + 1 for big in range(x // large + 1)),
        "number",
    )


_LEVELS: tuple[tuple[Callable[[int, int], Function], ...], ...] = (
    (_plus, _times, _less, _ends),
    (_above, _divisible, _squares),
    (_long_words, _cut_words, _digits, _differences),
    (_shifted, _rising, _best_part, _coins),
)
LEVELS = len(_LEVELS)
