"""Which line of a log says why an engine does not serve, as the lines come."""

from __future__ import annotations

from kvlab import engines, rules
from kvlab.core.masking import masked
from kvlab.core.observation import Failure

_NEW_START = next(pattern for stage, pattern in rules.STAGES if stage == "")
_SHOWN = 200
"""Characters of a line that are repeated."""


class Failing:
    """The first line that names a cause; until there is one, the first that only says that something went wrong."""

    def __init__(self, engine: str) -> None:
        """Raises BadInput when there is no engine of that name."""
        self._rules = engines.failures(engine).rules
        self._found: tuple[Failure, str] | None = None

    def feed(self, line: str) -> None:
        """Looks at one line. A new start makes what went before it void."""
        rule = next((rule for rule in self._rules if rule.pattern.search(line)), None)
        if rule is not None:
            if self._found is None or _vague(self._found[0]) > _vague(rule):
                self._found = (rule, line.strip())
        elif self._found is not None and _NEW_START.search(line):
            self._found = None

    def __bool__(self) -> bool:
        """Whether such a line came."""
        return self._found is not None

    def __str__(self) -> str:
        """What went wrong, the line, and what to do first; empty when no such line came."""
        if self._found is None:
            return ""
        rule, line = self._found
        return f"{rule.title.lower()} ({masked(line)[:_SHOWN]}); {rule.do[0]}"


def _vague(failure: Failure) -> bool:
    return rules.rule(failure.code).consequence
