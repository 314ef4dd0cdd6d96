"""llama.cpp builds as numbers."""

from __future__ import annotations

import re

from kvlab.core.errors import BadInput, shortened
from kvlab.core.plan import Ask
from kvlab.engines.llamacpp import ENGINE

_BUILD = re.compile(r"b?(\d{3,6})", re.ASCII)


def build(text: str) -> int:
    """11549 from "b11549". Raises BadInput on anything that is not a build of llama.cpp."""
    found = _BUILD.fullmatch(text.strip())
    if found is None:
        raise BadInput(f"engine version {shortened(text)!r} is no build of llama.cpp; write it as {ENGINE.version}")
    return int(found[1])


def unknown_yet(ask: Ask) -> str | None:
    """What to say of a build that came after the last one whose rules are known here; None for the others."""
    asked = build(ask.engine_version or ENGINE.version)
    if asked <= build(ENGINE.version):
        return None
    return (
        f"llama.cpp b{asked} is newer than the last build whose rules kvlab knows; planned by those of {ENGINE.version}"
    )
