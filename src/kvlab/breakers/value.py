"""Another value that changes from request to request stands in the prompt.

Symptom: prompts that are alike differ in a few words, and go on alike for long after them.

Cause: the template fills a slot near the front: a place, a language, a mood, a version, a count. It is no date, no id
and no name that kvlab knows; the words before and after it are the same in all of them.

Do:
- move the line with the slot to the end of the prompt, behind all that requests have in common
- where only a few values occur, order the slots so that the one which changes least comes first

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

from kvlab.breakers._compare import same
from kvlab.core.breaker import Cause

_LONGEST = 80
"""Characters of a slot."""
_ALIKE = 200
"""Characters that must go on alike after it."""


def _skip(one: str, at: int, other: str, there: int) -> tuple[int, int] | None:
    """The nearest pair of word ends after which both texts go on alike for long."""
    for total in range(1, 2 * _LONGEST):
        for mine in range(max(0, total - _LONGEST), min(total, _LONGEST) + 1):
            ends = (at + mine, there + total - mine)
            if (
                one[ends[0] : ends[0] + 12] == other[ends[1] : ends[1] + 12]
                and same(one, ends[0], other, ends[1]) >= _ALIKE
            ):
                return ends
    return None


CAUSE = Cause(
    title="a value that changes in the prompt",
    fix="move the line with the value to the end of the last message",
    rank=90,
    skip=_skip,
)
