"""Layers with a window keep the whole context.

Seen: "using full-size SWA cache" in llama-server's log, which --swa-full asks for.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("swa_full",), engines=("llamacpp", "ollama"))
