"""SGLang releases as comparable numbers. Rules were read in the wheels of 0.4.0 to 0.5.23 named where they changed."""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.core.releases import Release, parsed
from kvlab.engines.sglang import ENGINE

__all__ = ["OLDEST", "Release", "parse", "release"]

OLDEST: Release = (0, 4, 0)


def release(ask: Ask) -> Release:
    """The release whose rules apply: the asked one, or this folder's own.

    Raises BadInput when it cannot be read, or is older than the rules known here.
    """
    found = parse(ask.engine_version or ENGINE.version)
    if found < OLDEST:
        raise BadInput(
            f"--engine-version {ask.engine_version}: kvlab knows SGLang's rules from 0.4.0 on; name a newer release"
        )
    return found


def parse(text: str) -> Release:
    """(0, 5, 10) from "v0.5.10rc0". Raises BadInput on anything that is not a version."""
    return parsed(text, "an SGLang release", ENGINE.version)
