"""vLLM releases as comparable numbers."""

from __future__ import annotations

import re

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.engines.vllm import ENGINE

Release = tuple[int, int, int]


def release(ask: Ask) -> Release:
    """The release whose rules apply: the asked one, or this folder's own. Raises BadInput when it cannot be read."""
    return parse(ask.engine_version or ENGINE.version)


def parse(text: str) -> Release:
    """(0, 26, 1) from "0.26.1rc1.dev608+g99a10304d". Raises BadInput on anything that is not a version."""
    found = re.match(r"v?(\d+)\.(\d+)(?:\.(\d+))?", text.strip())
    if found is None:
        raise BadInput(f"engine version {text!r} is not a vLLM release; write it as {ENGINE.version}")
    return int(found[1]), int(found[2]), int(found[3] or 0)
