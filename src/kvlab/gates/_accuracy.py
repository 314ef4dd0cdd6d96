"""The verdict of a part whose answers are right or wrong: B's accuracy less A's, item by item, and its interval."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kvlab.answers import MOST_FAILED
from kvlab.core.exam import Marked
from kvlab.core.gate import Example, Figure, GateRule, PartVerdict
from kvlab.core.paired import Pairs, accuracy_change, items_to_settle, mcnemar, pairs, side
from kvlab.core.quality import Interval
from kvlab.core.statistics import wilson

FEWEST_RIGHT = 0.1
"""A's accuracy below which it has too little to lose for a pass to mean anything."""
SHOWN = 12
"""Items on which the arms part that are kept with both answers."""


class Trio(NamedTuple):
    """One item: A's mark, B's, and A's again."""

    a: Marked
    b: Marked
    again: Marked


def trios(a: Sequence[Marked], again: Sequence[Marked], b: Sequence[Marked]) -> list[Trio]:
    """The items that were marked in all three runs. Raises ValueError when the runs had different items."""
    whole = [Trio(*row) for row in zip(a, b, again, strict=True)]
    if any(len({mark.id for mark in trio}) > 1 for trio in whole):
        raise ValueError("the runs answered different items")
    return [trio for trio in whole if all(mark.right is not None for mark in trio)]


def against(found: Iterable[Trio]) -> Pairs:
    """A against B."""
    return pairs((bool(trio.a.right), bool(trio.b.right)) for trio in found)


def itself(found: Iterable[Trio]) -> Pairs:
    """A against A again."""
    return pairs((bool(trio.a.right), bool(trio.again.right)) for trio in found)


def figures(found: Sequence[Trio], rule: GateRule) -> tuple[Figure, ...]:
    """The accuracies with what the rule allows, and A's own beside A's again; none without an item."""
    if not found:
        return ()
    return _figure("accuracy", against(found), rule.accuracy_loss), _figure("accuracy of A again", itself(found), None)


def among(name: str, found: Sequence[Trio]) -> Figure:
    """The accuracies among some of the items, which decide nothing by themselves."""
    return _figure(name, against(found), None)


def _figure(name: str, found: Pairs, loss: float | None) -> Figure:
    return Figure(
        name=name,
        unit="share",
        a=wilson(found.both + found.only_a, found.items),
        b=wilson(found.both + found.only_b, found.items),
        difference=accuracy_change(found),
        allowed=None if loss is None else -loss,
    )


def judge(found: Sequence[Trio], runs: Sequence[Sequence[Marked]], rule: GateRule) -> tuple[PartVerdict, str]:
    """The verdict on `found`, the items that were marked in all of `runs`, and its reasons in a sentence.

    Pass: the interval excludes a loss of more than the rule allows. Fail: it excludes a smaller one. Neither while A
    against itself would fail or gain as much, or gets too little right.
    """
    margin, asked = rule.accuracy_loss, len(runs[0])
    if asked - len(found) > MOST_FAILED * asked or not found:
        why = next((f" ({mark.why})" for run in runs for mark in run if mark.right is None), "")
        return "inconclusive", f"{asked - len(found)} of {asked} items were not answered in all three runs{why}"
    counts, floor = against(found), itself(found)
    change, own = accuracy_change(counts), accuracy_change(floor)
    told = _told(counts, floor, change)
    allowed = f"{100 * margin:g} point{'' if margin == 0.01 else 's'}"
    if side(own, margin) == "beyond" or own.low > margin:
        return "inconclusive", f"{told}; A differs from itself by {_points(own)}: the server does not repeat itself"
    where = side(change, margin)
    if where == "beyond":
        return "fail", f"{told}: more than the {allowed} that the rule allows"
    if (counts.both + counts.only_a) < FEWEST_RIGHT * counts.items:
        return "inconclusive", f"{told}; A gets too little right to have much to lose"
    if where == "within":
        return "pass", f"{told}: a loss of more than {allowed} is excluded"
    needed = items_to_settle(counts, margin)
    more = "no number of items would settle it" if needed is None else f"about {needed:,} items would settle it"
    return "inconclusive", f"{told}: a loss of more than {allowed} is neither seen nor excluded; at these rates {more}"


def examples(found: Iterable[Trio]) -> tuple[Example, ...]:
    """Items that B lost, then items that it won, the first of each."""
    lost = [trio for trio in found if trio.a.right and not trio.b.right]
    won = [trio for trio in found if trio.b.right and not trio.a.right]
    return tuple(
        Example(
            id=trio.a.id,
            asked=trio.a.asked,
            a=trio.a.said or "",
            b=trio.b.said or "",
            note=f"wanted: {trio.a.wanted}" + (f" ({trio.b.why})" if trio.b.why else ""),
        )
        for trio in (lost + won)[:SHOWN]
    )


def _told(counts: Pairs, floor: Pairs, change: Interval) -> str:
    a, b, again = counts.both + counts.only_a, counts.both + counts.only_b, floor.both + floor.only_b
    part = f"where they part, B is right {counts.only_b} times and A {counts.only_a}"
    return (
        f"of {counts.items} items A gets {a} right, A again {again}, B {b}; the change is {_points(change)}; {part}"
        f" (McNemar's p {mcnemar(counts):.2g})"
    )


def _points(change: Interval) -> str:
    low, high = 100 * change.low, 100 * change.high
    return f"{100 * change.value:+.1f} points (95 % interval {low:+.1f} to {high:+.1f})"
