"""Settings that a log states: where each engine lists its arguments, and how they are said in a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import msgspec

from kvlab.core.needles import needles
from kvlab.core.notation import literal, pairs
from kvlab.core.observation import Observation, Said, Seen, Setting, Value, read_line

if TYPE_CHECKING:
    from kvlab.core.plan import Ask, Plan


class Named(msgspec.Struct, frozen=True):
    """How a request calls an argument, and its value there; `turn` gives ABSENT for a value that says nothing."""

    name: str
    turn: Callable[[str], Value] = literal


ABSENT = "\x00"
"""What stands in the place of a value that says nothing about a request."""
_BEFORE = 120
"""Characters of the line before its arguments, and of a value, that are quoted."""


def count(text: str) -> Value:
    """A number from 1; None stays None, and anything else says nothing."""
    value = literal(text)
    counted = isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40
    return value if value is None or counted else ABSENT


def share(text: str) -> Value:
    """A number above 0 and up to 1."""
    value = literal(text)
    return value if value is None or (isinstance(value, int | float) and 0 < value <= 1) else ABSENT


def word(text: str) -> Value:
    """A plain word ("fp8", "torch.float16" without its module); None stays None."""
    value = literal(text)
    if value is None:
        return None
    plain = str(value).removeprefix("torch.")
    return plain if re.fullmatch(r"[\w.+-]{1,64}", plain) else ABSENT


def truth(text: str) -> Value:
    """True or False; a switch that is not given is False."""
    value = literal(text)
    if value is None:
        return False
    return value if isinstance(value, bool) else ABSENT


def reversed_truth(text: str) -> Value:
    """The opposite, for a flag that turns something off which a request turns on."""
    value = truth(text)
    return not value if isinstance(value, bool) else value


def flag_number(text: str) -> Value:
    """A number, whole or not, as the word that a flag takes; 0 is the same as none."""
    value = literal(text)
    if isinstance(value, str):
        return ABSENT
    return str(value) if value else None


def last_part(text: str) -> Value:
    """The last part of a model's path or Hub id: the folders before it are nobody's business."""
    value = literal(text)
    name = value.rstrip("/").rpartition("/")[2] if isinstance(value, str) else ""
    return name or ABSENT


def setting_of(seen: Seen, name: str, flag: str, value: Value) -> Setting:
    """The setting `name` with the value that follows from what was seen, on that line."""
    return Setting(name=name, flag=flag, value=value, line=seen.line, line_number=seen.line_number)


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """A line that lists arguments in Python's notation, from where `pattern` ends."""

    pattern: re.Pattern[str]
    names: Mapping[str, Named]
    """The engine's own names -> those of a request."""
    whole: bool
    """Whether it lists every argument that was given: then it begins a new start."""
    flag: Callable[[str], str] = lambda key: "--" + key.replace("_", "-")
    """An argument's name as it is given on the command line."""


class StatedArgs(msgspec.Struct, frozen=True, kw_only=True):
    """stated_args.py: what an engine's log says of the settings that it runs with."""

    lists: tuple[Arguments, ...] = ()
    told: tuple[Said, ...] = ()
    derived: Callable[[Observation], tuple[Setting, ...]] | None = None
    """Settings that follow from what else was seen."""
    pool_parts: Callable[[Observation], tuple[str, ...]] | None = None
    """Names that together state the pool, for an engine that has no line for it; none where they are not all of it."""
    normal: Callable[[Plan], Ask] | None = None
    """The plan's request in the terms in which the log states settings; None: they are the same."""
    tiers: bool = False
    """Whether the arguments tell of a tier below the GPU's cache: `offload` and `offload_gib` are among `derived`."""
    where: str
    """Which line states the arguments, for a log that lacks it."""
    releases: tuple[str, ...] = ()
    """One release of each meaning that lines have had, for a log that does not name its own; none: they had but one."""

    @property
    def patterns(self) -> tuple[re.Pattern[str], ...]:
        """One of them matches each line that says something."""
        return (*(item.pattern for item in self.lists), *(item.pattern for item in self.told))


class Listener:
    """Reads the settings of a log while another reads its numbers."""

    def __init__(self, part: StatedArgs) -> None:
        self._part = part
        self._settings: dict[str, Setting] = {}
        self._whole = False
        self._told: list[Seen] = []
        found = [needles(pattern) for pattern in part.patterns]
        self._words = tuple({word for words in found for word in words or ("",)})

    def through(self, lines: Iterable[str]) -> Iterator[str]:
        """The same lines, each looked at."""
        words = self._words
        for number, line in enumerate(lines, 1):
            if any(word in line for word in words):
                self.look(line, number)
            yield line

    def look(self, line: str, number: int) -> None:
        """Reads one line."""
        if not any(word in line for word in self._words):
            return
        for item in self._part.lists:
            if match := item.pattern.search(line):
                self._list(item, line, number, match)
        self._told += read_line(line, number, self._part.told)

    def _list(self, item: Arguments, line: str, number: int, match: re.Match[str]) -> None:
        found = pairs(line, match.end())
        if item.whole:
            self._settings, self._whole = {}, True
        begin = line[: match.end()].strip()[-_BEFORE:]
        for key, text in found.items():
            named = item.names.get(key)
            value = named.turn(text) if named is not None else ABSENT
            if named is not None and value != ABSENT:
                # Only what is read is quoted: a list of arguments may hold a key or a person's folder.
                said = f"{begin} ... {key}={text[:_BEFORE]} ..."
                setting = Setting(name=named.name, flag=item.flag(key), value=value, line=said, line_number=number)
                self._settings[named.name] = setting

    def added(self, observation: Observation) -> Observation:
        """The observation with the settings beside its numbers."""
        return msgspec.structs.replace(
            observation, settings=tuple(self._settings.values()), all_settings=self._whole, told=tuple(self._told)
        )


def with_derived(observation: Observation, part: StatedArgs) -> Observation:
    """The observation with what follows from its numbers: settings that no line states, and the parts of the pool."""
    if part.pool_parts is not None:
        observation = msgspec.structs.replace(observation, pool_parts=part.pool_parts(observation))
    if part.derived is None:
        return observation
    stated = {item.name for item in observation.settings}
    more = tuple(item for item in part.derived(observation) if item.name not in stated)
    return msgspec.structs.replace(observation, settings=(*observation.settings, *more))
