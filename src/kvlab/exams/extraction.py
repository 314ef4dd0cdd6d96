"""One fact out of orders: of a record, of a note, of one customer among several, by another fact, by a comparison.

Marked right when the answer is the fact and nothing else; case, spaces, quotes around it, "the" before it and a
full stop after it do not count.
"""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from kvlab.core.exam import Exam, Question, plain
from kvlab.exams._words import CITIES, COLOURS, PEOPLE, SURNAMES, THINGS


class _Order(NamedTuple):
    customer: str
    number: str
    thing: str
    city: str
    kilograms: int

    @property
    def facts(self) -> dict[str, str]:
        """Question about an order that its customer tells -> the answer."""
        return {
            "the order number of {}": self.number,
            "the city of {}": self.city,
            "what {} ordered": self.thing,
        }

    def told(self, source: Random) -> str:
        """The order in a sentence; its facts stand in different places."""
        customer, number, thing, city, weight = self.customer, self.number, self.thing, self.city, self.kilograms
        return source.choice(
            (
                f"{customer} ordered the {thing} for {city} (order {number}, {weight} kg).",
                f"Order {number}, the {thing}, goes to {customer} in {city} and weighs {weight} kg.",
                f"The {thing} of {weight} kg for {customer} will be sent to {city} as order {number}.",
                f"To {city}: the {thing}, {weight} kg, order {number}, customer {customer}.",
            )
        )


def _orders(source: Random, count: int) -> list[_Order]:
    """Orders that share no fact."""
    names = source.sample([f"{first} {last}" for first in PEOPLE for last in SURNAMES], count)
    numbers = [
        f"{source.choice('ABCDEFGHKLMNPRSTUVWXYZ')}{number}" for number in source.sample(range(1000, 9999), count)
    ]
    goods = source.sample([f"{colour} {thing}" for colour in COLOURS for thing in THINGS], count)
    cities, weights = source.sample(CITIES, count), source.sample(range(2, 60), count)
    return [_Order(names[at], numbers[at], goods[at], cities[at], weights[at]) for at in range(count)]


def _make(source: Random, level: int) -> Question:
    orders = _orders(source, (1, 1, 1, 3, 4, 6)[level])
    asked = source.choice(orders)
    note = " ".join(order.told(source) for order in orders)
    if level < 2:
        facts = {"customer": asked.customer, "order": asked.number, "goods": asked.thing, "city": asked.city}
        labels = source.sample(list(facts), len(facts))
        note = "; ".join(f"{label} {facts[label]}" for label in labels)
        question = "city" if level == 0 else source.choice(labels)
        answer = facts[question]
    elif level < 4:
        what, answer = source.choice(list(asked.facts.items()))
        question = what.format(asked.customer)
    elif level == 4:
        question, answer = source.choice(
            (
                (f"the customer of order {asked.number}", asked.customer),
                (f"the order number of the {asked.thing}", asked.number),
                (f"the city of the parcel of {asked.kilograms} kg", asked.city),
            )
        )
    else:
        question, answer = _compared(source, orders)
    return Question(text=f"{note}\nWanted: {question}", answer=answer)


def _compared(source: Random, orders: list[_Order]) -> tuple[str, str]:
    ordered = sorted(orders, key=lambda order: order.kilograms)
    place, name = source.choice(((-1, "heaviest"), (0, "lightest"), (-2, "second heaviest"), (1, "second lightest")))
    found = ordered[place]
    what, answer = source.choice((("the customer", found.customer), ("the order number", found.number)))
    return f"{what} of the {name} parcel", answer


def _mark(question: Question, answer: str) -> bool:
    return plain(answer).removeprefix("the ") == plain(question.answer)


EXAM = Exam(
    name="extraction",
    title="Extraction",
    task="Each note is followed by what is wanted of it, and then by that alone.",
    form="Note: {}\nFound: ",
    levels=6,
    make=_make,
    mark=_mark,
    tokens=16,
)
