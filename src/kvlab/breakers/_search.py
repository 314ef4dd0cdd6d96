"""Groups of prompts that are alike, piece by piece from the front, and the causes that keep them from being the same.

Prompts whose pieces so far are the same (but for causes found) form a group; the next piece parts it into groups of
texts that are alike. In each, forms and orders are tried first, then the texts are walked along against the first one.
What differs without a cause parts the prompts for good, as their questions do.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from kvlab.breakers import causes
from kvlab.breakers._compare import same
from kvlab.breakers._groups import groups
from kvlab.breakers._pieces import Piece, number, unit
from kvlab.breakers._walk import Walked, placed, walk

_DEEPEST = 24
"""Pieces from the front that are looked at."""
_ROUNDS = 3
_TRIED = 40
"""Texts after which a slot of unknown kind is no longer looked for, if none had one."""
_OFTEN = 3
"""Texts that must differ in a slot of unknown kind."""
SHOTS = "shots"


class Found(NamedTuple):
    """A cause in one piece of a group. `members`: prompts of the group; `differ`: those unlike the first."""

    code: str
    level: int
    label: str
    members: tuple[int, ...]
    differ: tuple[int, ...]
    units: dict[int, list[str]]
    """What is to be moved of each member's piece; empty for a cause that brings the piece into a form."""
    shots: bool = False
    """Whether the messages themselves are the examples whose order differs."""
    question: bool = False
    """Whether the piece is the last message of several, where values are what is asked."""


class Search:
    """Looks through prompts, given as pieces; what it finds is in `found`."""

    def __init__(self, prompts: Sequence[list[Piece]]) -> None:
        self._pieces = [list(made) for made in prompts]
        self.found: list[Found] = []
        self._forms = {code: cause.normal for code, cause in causes().items() if cause.normal is not None}
        self._values = {code: cause for code, cause in causes().items() if cause.skip is not None}

    def run(self) -> list[Found]:
        """Everything found, from the front of the prompts to their ends."""
        self._part([at for at, made in enumerate(self._pieces) if made], 0, 0)
        return self.found

    def _part(self, members: list[int], level: int, turn: int) -> None:
        if level >= _DEEPEST or turn >= _ROUNDS:
            return
        self._in_order(members, level)
        by_kind: dict[tuple[str, str], dict[int, str]] = defaultdict(dict)
        for at in members:
            if level < len(self._pieces[at]):
                piece = self._pieces[at][level]
                by_kind[piece.kind, piece.role][at] = piece.text
        for texts in by_kind.values():
            for group in groups(texts):
                if len(group) > 1:
                    self._group(group, level, turn)

    def _group(self, members: list[int], level: int, turn: int) -> None:
        texts = {at: self._pieces[at][level].text for at in members}
        if len(set(texts.values())) == 1:
            self._part(members, level + 1, 0)
            return
        for code in self._forms:
            texts = self._form(code, level, texts)
        first = members[0]
        walks = self._walks(texts, first, level)
        self._note(level, texts, walks)
        for at, text in texts.items():
            self._pieces[at][level] = self._pieces[at][level]._replace(text=text)
        through = [at for at in members if walks[texts[at]].whole]
        self._part(through, level + 1, 0)
        rest = [at for at in members if not walks[texts[at]].whole]
        if len(rest) > 1:
            self._part(rest, level, turn + 1)

    def _form(self, code: str, level: int, texts: dict[int, str]) -> dict[int, str]:
        """The texts in the form of that cause, if it brings any closer to the first."""
        normal = self._forms[code]
        made = {text: normal(text) for text in set(texts.values())}
        first = next(iter(texts))
        base = texts[first]
        differ = tuple(at for at, text in texts.items() if text != base and _closer(base, text, made[base], made[text]))
        if not differ:
            return texts
        self._add(code, level, tuple(texts), differ, {})
        return {at: made[text] for at, text in texts.items()}

    def _walks(self, texts: dict[int, str], first: int, level: int) -> dict[str, Walked]:
        base = texts[first]
        made = self._pieces[first]
        question = level == len(made) - 1 and len(made) > 1
        known = {code: cause for code, cause in self._values.items() if not (question and code == "value")}
        found: dict[str, Walked] = {}
        slots = 0
        for tried, text in enumerate(dict.fromkeys(texts.values())):
            if tried == _TRIED and not slots:
                known.pop("value", None)
            found[text] = walk(base, text, known)
            slots += any(slot.code == "value" for slot in found[text].slots)
        return found

    def _note(self, level: int, texts: dict[int, str], walks: dict[str, Walked]) -> None:
        """What the walks met, cause by cause, with the line of every member that holds the value."""
        spans: dict[str, set[tuple[int, int]]] = defaultdict(set)
        for walked in walks.values():
            for slot in walked.slots:
                spans[slot.code].add(slot.mine)
        for code, places in spans.items():
            having = {text for text, walked in walks.items() if any(slot.code == code for slot in walked.slots)}
            if code == "value" and len(having) < _OFTEN - 1:
                continue
            units = {at: _units(text, walks[text], sorted(places)) for at, text in texts.items()}
            differ = tuple(at for at, text in texts.items() if text in having)
            self._add(code, level, tuple(texts), differ, units)

    def _in_order(self, members: list[int], level: int) -> None:
        """Sorts the examples of members that show the same pairs of question and answer in another order."""
        by_pairs: dict[tuple[tuple[str, str], ...], list[int]] = defaultdict(list)
        for at in members:
            pairs = _pairs(self._pieces[at], level)
            if len(pairs) > 1:
                by_pairs[tuple(sorted(pairs))].append(at)
        for same_pairs in by_pairs.values():
            first = _pairs(self._pieces[same_pairs[0]], level)
            differ = tuple(at for at in same_pairs if _pairs(self._pieces[at], level) != first)
            if differ:
                self._add("example_order", level, tuple(same_pairs), differ, {}, True)
                for at in same_pairs:
                    self._pieces[at] = sorted_pairs(self._pieces[at], level)[0]

    def _add(
        self,
        code: str,
        level: int,
        members: tuple[int, ...],
        differ: tuple[int, ...],
        units: dict[int, list[str]],
        shots: bool = False,
    ) -> None:
        made = self._pieces[members[0]]
        label = "the examples" if shots else made[level].label(number(made, level))
        question = bool(units) and level == len(made) - 1 > 0
        self.found.append(Found(code, level, label, members, differ, units, shots, question))


def _pairs(made: list[Piece], level: int) -> list[tuple[str, str]]:
    """Questions and answers from `level` to before the last message; nothing when there is anything else."""
    shown = made[level:-1]
    roles = [piece.role for piece in shown]
    if len(shown) % 2 or roles != ["user", "assistant"] * (len(shown) // 2) or made[-1].role != "user":
        return []
    return [(shown[at].text, shown[at + 1].text) for at in range(0, len(shown), 2)]


def sorted_pairs(made: list[Piece], level: int) -> tuple[list[Piece], list[int]]:
    """The pieces with their pairs of question and answer sorted, and where each piece stood."""
    pairs = sorted(range(level, len(made) - 1, 2), key=lambda at: (made[at].text, made[at + 1].text))
    order = [*range(level), *(at + step for at in pairs for step in (0, 1)), len(made) - 1]
    return [made[at] for at in order], order


def _units(text: str, walked: Walked, places: list[tuple[int, int]]) -> list[str]:
    spans = [span for place in places if (span := placed(walked, place)) is not None]
    return list(dict.fromkeys(unit(text, *span) for span in spans))


def _closer(one: str, other: str, one_formed: str, other_formed: str) -> bool:
    """Whether two texts have clearly more in common once they are in one form."""
    if one_formed == other_formed:
        return True
    before = same(one, 0, other, 0) / max(1, min(len(one), len(other)))
    least = max(1, min(len(one_formed), len(other_formed)))
    return same(one_formed, 0, other_formed, 0) / least > before + max(0.02, 16 / least)
