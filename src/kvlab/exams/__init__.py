"""Tasks with one right answer: one kind a file of this folder, found by its `Exam` value.

Every item is made from the seed, so no training text holds it, and any number can be asked for. Nothing here depends on
a model: the prompts are plain text with worked examples, which base models continue and instructed ones follow.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from kvlab import variants
from kvlab.core.errors import BadInput
from kvlab.core.exam import Exam, Item, Question

_TRIES = 200


def exams() -> dict[str, Exam]:
    """Every kind by name, sorted."""
    return variants.collected(__name__, Exam)


def paper(items: int, seed: int) -> tuple[Item, ...]:
    """`items` different items: as many of each kind, and of each of its levels, as of the next, give or take one.

    One level comes after another, so that an engine finds the examples of a prompt in its cache. More items of the same
    seed are the same ones and others. Raises BadInput for less than one of each kind.
    """
    kinds = tuple(exams().values())
    if items < len(kinds):
        raise BadInput(f"{items} task items are less than one of each kind ({', '.join(exams())})")
    return tuple(
        item
        for exam, count in zip(kinds, _spread(items, len(kinds)), strict=True)
        for level, some in enumerate(_spread(count, exam.levels))
        for item in _items(exam, level, some, seed)
    )


def _spread(items: int, over: int) -> list[int]:
    return [items // over + (number < items % over) for number in range(over)]


def _items(exam: Exam, level: int, count: int, seed: int) -> Iterator[Item]:
    """The examples are the same for every seed, and are not asked."""
    taken, source = set[str](), Random(f"kvlab {exam.name} {level} examples")
    examples = [_new(exam, level, source, taken) for _ in range(exam.examples)]
    head = "\n\n".join([exam.task, *(f"{exam.form.format(one.text)}{one.answer}" for one in examples)])
    source = Random(f"kvlab {exam.name} {level} {seed}")
    for number in range(count):
        question = _new(exam, level, source, taken)
        prompt = f"{head}\n\n{exam.form.format(question.text).rstrip()}"
        name = f"{exam.name}-{level + 1}-{number + 1}"
        yield Item(id=name, kind=exam.name, level=level, question=question, prompt=prompt)


def _new(exam: Exam, level: int, source: Random, taken: set[str]) -> Question:
    """A question that was not asked before. Raises BadInput when chance finds no other."""
    for _ in range(_TRIES):
        question = exam.make(source, level)
        if question.text not in taken:
            taken.add(question.text)
            return question
    raise BadInput(
        f"there are not many more different {exam.name} items of level {level + 1} than {len(taken)}; ask for fewer"
        " task items"
    )
