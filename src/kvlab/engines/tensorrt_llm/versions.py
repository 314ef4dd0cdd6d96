"""TensorRT-LLM's release numbers."""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.core.releases import Release, parsed
from kvlab.engines.tensorrt_llm import ENGINE

FIRST = (1, 0)
"""The first release whose PyTorch flow sizes the cache as these rules do (sources of 1.0 to 1.4 were read)."""


def check_release(ask: Ask) -> Release:
    """The asked release, or this folder's own.

    Raises BadInput for a version that cannot be read, or that is older than the rules of this folder.
    """
    text = ask.engine_version or ENGINE.version
    found = parsed(text, "a TensorRT-LLM release", ENGINE.version)
    if found[:2] < FIRST:
        raise BadInput(f"how TensorRT-LLM {text} sizes its cache is not known here; plan for 1.0 or later")
    return found
