"""vLLM releases as comparable numbers."""

from __future__ import annotations

from kvlab.core.errors import BadInput, shortened
from kvlab.core.plan import Ask
from kvlab.core.releases import Release, parsed
from kvlab.engines.vllm import ENGINE

__all__ = ["Release", "parse", "release"]

_KIND = "a vLLM release"
_FIRST: Release = (0, 1, 0)


def release(ask: Ask) -> Release:
    """The release whose rules apply: the asked one, or this folder's own. Raises BadInput when it cannot be read."""
    return parse(ask.engine_version or ENGINE.version)


def parse(text: str) -> Release:
    """(0, 26, 1) from "0.26.1rc1.dev608+g99a10304d". Raises BadInput on anything that is not a version of vLLM."""
    numbers = parsed(text, _KIND, ENGINE.version)
    if numbers < _FIRST:
        raise BadInput(f"engine version {shortened(text)!r} is not {_KIND}; write it as {ENGINE.version}")
    return numbers
