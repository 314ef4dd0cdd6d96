"""vLLM releases as comparable numbers."""

from __future__ import annotations

import re

from kvlab.core.errors import BadInput, shortened
from kvlab.core.plan import Ask
from kvlab.engines.vllm import ENGINE

Release = tuple[int, int, int]

# "0.32.0", "v0.9.2", "0.26.1rc1.dev608+g99a10304d", "0.6.6.post1"
_RELEASE = re.compile(r"v?(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:\.?(?:a|b|rc|post|dev)\d*)*(?:\+[\w.]+)?", re.ASCII)
_FIRST: Release = (0, 1, 0)


def release(ask: Ask) -> Release:
    """The release whose rules apply: the asked one, or this folder's own. Raises BadInput when it cannot be read."""
    return parse(ask.engine_version or ENGINE.version)


def parse(text: str) -> Release:
    """(0, 26, 1) from "0.26.1rc1.dev608+g99a10304d". Raises BadInput on anything that is not a version of vLLM."""
    found = _RELEASE.fullmatch(text.strip())
    numbers = (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None
    if numbers is None or numbers < _FIRST:
        raise BadInput(f"engine version {shortened(text)!r} is not a vLLM release; write it as {ENGINE.version}")
    return numbers


def unknown_yet(ask: Ask) -> str | None:
    """What to say of a release that came after the last one whose rules are known here; None for the others."""
    asked = release(ask)
    if asked[:2] <= parse(ENGINE.version)[:2]:
        return None
    return (
        f"vLLM {'.'.join(map(str, asked))} is newer than the last release whose rules kvlab knows; planned by those of"
        f" {ENGINE.version}"
    )
