"""Examples or documents come in another order.

Symptom: prompts hold the same examples, documents or list items in another order.

Cause: examples are drawn at random, or documents come in the order of a search's score. The first one that stands
elsewhere ends the common prefix.

Do:
- keep the examples in one order
- sort documents by their id, not by their score, where the order does not matter to the answer

Source: https://docs.vllm.ai/en/latest/design/prefix_caching.html
"""

from __future__ import annotations

import re
from collections import Counter

from kvlab.core.breaker import Cause

_NUMBER = re.compile(r"\d+")
_HEAD = re.compile(r"^\W{0,8}\w{0,40}")
_TITLE = re.compile(r"^(\W{0,8}\w{1,40}\W{0,2})(\d{1,9})(?=\W)")


def _normal(text: str) -> str:
    """The blocks that begin alike, sorted among their own places, and numbered again."""
    mark = "\n\n" if text.count("\n\n") >= 2 else "\n"
    return mark.join(_sorted(text.split(mark)))


def _sorted(blocks: list[str]) -> list[str]:
    heads = [_NUMBER.sub("#", found[0]) if (found := _HEAD.match(block)) and block.strip() else "" for block in blocks]
    often = Counter(head for head in heads if head)
    made = list(blocks)
    for head, times in often.items():
        if times < 2:
            continue
        places = [at for at, found in enumerate(heads) if found == head]
        stripped = [_TITLE.sub(r"\1#", blocks[at].rstrip()) for at in places]
        for number, (at, block) in enumerate(zip(places, sorted(stripped), strict=True), 1):
            title = _TITLE.match(blocks[at])
            made[at] = block.replace(f"{title[1]}#", f"{title[1]}{number}", 1) if title else block
    return made


CAUSE = Cause(
    title="examples or documents in another order",
    fix="keep examples and documents in one order",
    rank=10,
    normal=_normal,
)
