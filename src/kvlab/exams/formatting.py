"""A given form, kept exactly: capitals, lists, JSON, an order, letters one by one.

Marked by parsing: a list right when its items are, in order, whatever the spaces around them; JSON right when it is one
document that equals the wanted one, types and all, whatever its spaces and the order of its keys; words right when they
are the same letter by letter, in case too.
"""

from __future__ import annotations

import re
from random import Random

import msgspec

from kvlab.core.exam import Exam, Question
from kvlab.exams._words import CITIES, COLOURS, PEOPLE, THINGS

_JSON, _LIST, _WORDS = "json", "list", "words"


def _capitals(source: Random) -> tuple[str, str, str]:
    words = f"{source.choice(COLOURS)} {source.choice(THINGS)} of {source.choice(PEOPLE)}"
    return f"in capital letters: {words}", words.upper(), _WORDS


def _commas(source: Random) -> tuple[str, str, str]:
    things = source.sample(THINGS, 4)
    return f"as a list with commas: {' and '.join(things)}", ", ".join(things), _LIST


def _object(source: Random) -> tuple[str, str, str]:
    name, age, city = source.choice(PEOPLE), source.randint(18, 90), source.choice(CITIES)
    document = {"name": name, "age": age, "city": city}
    return f"as JSON: name {name}, age {age}, city {city}", _json(document), _JSON


def _sorted(source: Random) -> tuple[str, str, str]:
    things = source.sample(THINGS, 5)
    return f"in alphabetical order: {', '.join(things)}", ", ".join(sorted(things)), _LIST


def _array(source: Random) -> tuple[str, str, str]:
    rows = [(thing, source.randint(2, 99)) for thing in source.sample(THINGS, 3)]
    document = [{"item": thing, "count": count, "many": count > 50} for thing, count in rows]
    told = ", ".join(f"{count} times {thing}" for thing, count in rows)
    return f"as a JSON array with item, count, many (more than 50): {told}", _json(document), _JSON


def _backwards(source: Random) -> tuple[str, str, str]:
    word = "".join(source.sample("abcdefghiklmnoprstuvwz", 8))
    return f"letters backwards with hyphens: {word}", "-".join(reversed(word)), _WORDS


_FORMS = (_commas, _object, _capitals, _array, _sorted, _backwards)


def _json(document: object) -> str:
    return msgspec.json.encode(document).decode().replace('":', '": ').replace(',"', ', "').replace(",{", ", {")


def _make(source: Random, level: int) -> Question:
    text, answer, how = _FORMS[level](source)
    return Question(text=text, answer=answer, checks=how)


def _mark(question: Question, answer: str) -> bool:
    if question.checks == _JSON:
        try:
            return _same(msgspec.json.decode(answer), msgspec.json.decode(question.answer))
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return False
    if question.checks == _LIST:
        return _listed(answer) == _listed(question.answer)
    return answer.strip() == question.answer


def _same(one: object, other: object) -> bool:
    """Equal as JSON is: 1 is neither true nor 1.0."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")


def _listed(text: str) -> list[str]:
    return re.split(r"\s*,\s*", text.strip())


EXAM = Exam(
    name="formatting",
    title="Format following",
    task="Each line is written again in the form that it asks for.",
    form="Write {}\nWritten: ",
    levels=len(_FORMS),
    make=_make,
    mark=_mark,
    tokens=96,
)
