"""Names of modules that a quantised checkpoint leaves alone, as the formats write them: names, globs, regexes."""

from __future__ import annotations

import re

import msgspec

_REPEATED_GROUP = re.compile(r"\)[*+{]")
_UNBOUNDED = re.compile(r"[*+{]|(?<!\()\?")
_MAX_PATTERN, _MOST_UNBOUNDED, _MOST_NAMES = 400, 5, 20_000
"""Published patterns repeat twice; matching takes time that grows with a power of the repetitions."""


class Names(msgspec.Struct, frozen=True):
    """A set of module names; a module is in it when it, or what it lies in, is named."""

    exact: frozenset[str] = frozenset()
    words: frozenset[str] = frozenset()
    pattern: re.Pattern[str] | None = None

    def hold(self, name: str) -> bool:
        """Whether the module is named."""
        pieces = name.split(".")
        if self.words and not self.words.isdisjoint(pieces):
            return True
        if self.exact and any(".".join(pieces[:end]) in self.exact for end in range(1, len(pieces) + 1)):
            return True
        return self.pattern is not None and self.pattern.fullmatch(name) is not None


def names(listed: list[object] | None) -> Names | None:
    """The names in a config's list; None for a list with an entry that cannot be read."""
    exact, words, patterns = set(), set(), []
    if listed is not None and len(listed) > _MOST_NAMES:
        return None
    for entry in listed or []:
        if not isinstance(entry, str) or len(entry) > _MAX_PATTERN:
            return None
        if len(_UNBOUNDED.findall(entry)) > _MOST_UNBOUNDED:
            return None
        if entry.startswith("re:"):
            if _REPEATED_GROUP.search(entry):
                return None
            patterns.append(f"(?:.*\\.)?(?:{entry[3:]}).*")
        elif "*" in entry:
            patterns.append(re.escape(shortened(entry)).replace(r"\*", ".*") + r"(?:\..*)?")
        elif "." in entry:
            exact.add(shortened(entry))
        else:
            words.add(entry)
    try:
        pattern = re.compile("|".join(patterns)) if patterns else None
    except (re.error, OverflowError, RecursionError):
        return None
    return Names(frozenset(exact), frozenset(words), pattern)


def shortened(name: str) -> str:
    """The name from `layers.` or `mtp.` on: what stands before differs between a model and its multimodal wrapper."""
    for start in ("mtp.", "layers."):
        at = name.find(start)
        if at >= 0:
            return name[at:]
    return name
