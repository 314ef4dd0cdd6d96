"""TensorRT-LLM's release numbers."""

from __future__ import annotations

import re

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask
from kvlab.engines.tensorrt_llm import ENGINE

FIRST = (1, 0)
"""The first release whose PyTorch flow sizes the cache as these rules do (sources of 1.0 to 1.4 were read)."""


def check_release(ask: Ask) -> None:
    """Raises BadInput for a version that cannot be read, or that is older than the rules of this folder."""
    text = ask.engine_version or ENGINE.version
    found = re.match(r"v?(\d+)\.(\d+)", text.strip())
    if found is None:
        raise BadInput(f"engine version {text!r} is not a TensorRT-LLM release; write it as {ENGINE.version}")
    if (int(found[1]), int(found[2])) < FIRST:
        raise BadInput(f"how TensorRT-LLM {text} sizes its cache is not known here; plan for 1.0 or later")
