"""What an engine said or a scrape showed, each number with the line it came from."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from kvlab.core.masking import masked
from kvlab.core.needles import needles
from kvlab.core.units import MOST

LONG_LINE = 400
"""Characters of a line that are shown whole."""
_AROUND = 80
_MOST_KNOWN = 64
_AFTER = re.compile(r"[\s,;:)\]}>|/\"'\\]|\.?(?:\s|$)")
"""What may stand after a value that ends its pattern."""
_GROUPED = re.compile(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?")


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """One number (or word) that the engine stated."""

    name: str
    value: float | str
    unit: str
    line: str
    line_number: int | None = None

    def __post_init__(self) -> None:
        """A line is kept without the keys and passwords in it, whoever read it."""
        msgspec.structs.force_setattr(self, "line", masked(self.line))


Value = str | int | float | bool | None


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that the engine ran with, as its log states it."""

    name: str
    """The field of Ask that asks for it, or the engine's flag, without dashes before it, where there is none."""
    flag: str
    """What the engine calls it ("--max-model-len", "n_ctx")."""
    value: Value
    """In the words of a request; None: the engine's own default."""
    line: str
    line_number: int | None = None

    def __post_init__(self) -> None:
        """As that of Seen."""
        msgspec.structs.force_setattr(self, "line", masked(self.line))


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """Everything read from one log or server. A name that is absent was not seen: that is neither yes nor no."""

    engine: str
    version: str | None = None
    seen: tuple[Seen, ...] = ()
    settings: tuple[Setting, ...] = ()
    """The last statement of each setting."""
    all_settings: bool = False
    """Whether `settings` holds every one that was given: those that it lacks are at their defaults."""
    server: bool = False
    """Whether pages of a running server state this, and no log."""
    told: tuple[Seen, ...] = ()
    """What bears on the cache and is no planned number: memory that was free before, a manager turned off."""
    pool_parts: tuple[str, ...] = ()
    """Names that together state the pool, where no line of its own does."""

    def get(self, name: str) -> Seen | None:
        """The last statement of that name; None when it was not seen."""
        return next((item for item in reversed(self.seen) if item.name == name), None)

    @property
    def given_pool(self) -> Seen | None:
        """The line in which the engine says that it was given its pool (`pool_given`); None when it sized it itself."""
        pool = self.get("kv_pool_bytes")
        given = [item for item in self.seen if item.name == "pool_given"]
        return next((item for item in given if pool is not None and item.line_number == pool.line_number), None)

    def hint(self, name: str) -> Seen | None:
        """The last of that name among what was told."""
        return next((item for item in reversed(self.told) if item.name == name), None)

    def setting(self, name: str) -> Setting | None:
        """The setting of that name; None when the log does not state it."""
        return next((item for item in self.settings if item.name == name), None)


class Said(msgspec.Struct, frozen=True):
    """A line that an engine writes: the quantity's name, its unit, and a pattern whose group 1 is the value.

    `scale` turns the printed number into the unit (MiB to bytes). The comment above each names versions that print it.
    """

    name: str
    unit: str
    pattern: re.Pattern[str]
    scale: float = 1.0


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A line that means the start has failed (or will): its code, title, cause and what to do."""

    code: str
    title: str
    pattern: re.Pattern[str]
    why: str
    do: tuple[str, ...]


def patterns_in(names: Mapping[str, object], *others: re.Pattern[str]) -> tuple[re.Pattern[str], ...]:
    """The patterns among a module's `names`, without `others`, which tell nothing about a line that is read."""
    return tuple(value for value in names.values() if isinstance(value, re.Pattern) and value not in others)


def excerpt(line: str, match: re.Match[str]) -> str:
    """The line, or of a very long one (a printed configuration) its beginning and what stands around the value."""
    text = line.strip()
    if len(text) <= LONG_LINE:
        return text
    begin, end = max(0, match.start(1) - _AROUND), match.end(1) + _AROUND
    # Masked before it is cut: the rest of a key would not be known as one.
    around = masked(line[:end])[begin - end :]
    return f"{masked(line)[:_AROUND].lstrip()} ... {around.strip()} ..."


def read_line(line: str, number: int, said: tuple[Said, ...]) -> list[Seen]:
    """Every statement in line `number` of a log (from 1) that a pattern of `said` matches, in the order of `said`.

    One pattern may match several times: two ranks that write at once put their records into one line.
    """
    found = []
    for at in sorted({at for literal, held in _quick(said) if literal in line for at in held}):
        item = said[at]
        for match in item.pattern.finditer(line):
            text = match.group(1).rstrip(",")
            value = text if item.unit == "word" else _amount(text, item.scale)
            if value is not None and _ends(line, match):
                said_in = excerpt(line, match)
                seen = Seen(name=item.name, value=value, unit=item.unit, line=said_in, line_number=number)
                found.append(seen)
    return found


_Quick = list[tuple[str, list[int]]]
_known: dict[int, tuple[tuple[Said, ...], _Quick]] = {}


def _quick(said: tuple[Said, ...]) -> _Quick:
    """Literals, and which patterns need one of them in a line: trying each pattern on each line takes far longer."""
    known = _known.get(id(said))
    if known is None or known[0] is not said:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        held: dict[str, list[int]] = {}
        for at, item in enumerate(said):
            for literal in needles(item.pattern) or ("",):
                held.setdefault(literal, []).append(at)
        known = _known[id(said)] = (said, list(held.items()))
    return known[1]


def _ends(line: str, match: re.Match[str]) -> bool:
    """Whether the value ends where the pattern left it; another rank's record may begin in the middle of a number."""
    end = match.end(1)
    return end < match.end() or _AFTER.match(line, end) is not None


def _amount(text: str, scale: float) -> float | None:
    """The number in the unit; None for what is none ("1.2.3", "55,3") or beyond any machine: it was not seen."""
    if "," in text and _GROUPED.fullmatch(text) is None:
        return None
    try:
        amount = float(text.replace(",", "")) * scale
    except ValueError:
        return None
    return amount if abs(amount) <= MOST else None
