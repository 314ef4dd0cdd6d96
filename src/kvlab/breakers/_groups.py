"""Texts that are alike, whatever the order of their words: bottom-k sketches of words and pairs of words (Broder)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from zlib import crc32

_WORD = re.compile(r"[^\W\d_]+")
_KEPT = 32
_ALIKE = 0.5
"""Share of the sketch from which two texts are taken for one template filled in differently."""


def groups(texts: Mapping[int, str]) -> list[list[int]]:
    """Keys of texts that are alike, in the order of their first."""
    by_text: dict[str, list[int]] = defaultdict(list)
    for key, text in texts.items():
        by_text[text].append(key)
    found: list[tuple[frozenset[int], list[int]]] = []
    holding: dict[int, list[int]] = defaultdict(list)
    for text, keys in by_text.items():
        sketch = _sketch(text)
        shared: dict[int, int] = defaultdict(int)
        for value in sketch:
            for group in holding[value]:
                shared[group] += 1
        best = max(shared, key=lambda group: shared[group], default=-1)
        if best >= 0 and shared[best] >= _ALIKE * min(len(sketch), len(found[best][0])):
            found[best][1].extend(keys)
            continue
        for value in sketch:
            holding[value].append(len(found))
        found.append((sketch, list(keys)))
    return [sorted(keys) for _, keys in found]


def _sketch(text: str) -> frozenset[int]:
    words = [word.lower() for word in _WORD.findall(text)]
    values = {crc32(word.encode()) for word in words}
    values |= {crc32(f"{one} {two}".encode()) for one, two in pairwise(words)}
    return frozenset(sorted(values)[:_KEPT])
