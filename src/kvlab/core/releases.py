"""Release numbers of engines, as comparable numbers."""

from __future__ import annotations

import re

from kvlab.core.errors import BadInput, shortened
from kvlab.core.model import Doubt

Release = tuple[int, int, int]
# "0.32.0", "v0.9.2", "0.26.1rc1.dev608+g99a10304d", "0.6.6.post1", "0.5.10-rc0"
_RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:[-.]?(?:a|b|rc|post|dev)\d*)*(?:\+[\w.]+)?", re.ASCII)


def parsed(text: str, kind: str, newest: str) -> Release:
    """(0, 26, 1) from "0.26.1rc1.dev608+g99a10304d".

    Raises BadInput on anything that is no version, saying that it is not `kind` ("a vLLM release") and how `newest` is
    written.
    """
    found = _RELEASE.fullmatch(text.strip())
    numbers = (int(found[1]), int(found[2]), int(found[3] or 0)) if found is not None else (0, 0, 0)
    if numbers == (0, 0, 0):
        raise BadInput(f"engine version {shortened(text)!r} is not {kind}; write it as {newest}")
    return numbers


def newer(asked: Release, newest: Release, title: str) -> list[Doubt]:
    """A doubt about a release that came after the last one whose rules are known; none for the others."""
    if asked[:2] <= newest[:2]:
        return []
    numbers, known = (".".join(map(str, release)) for release in (asked, newest))
    text = f"{title} {numbers} is newer than the last release whose rules kvlab knows; planned by those of {known}"
    return [Doubt("engine-version", text)]
