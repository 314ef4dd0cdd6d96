"""The server has another number of slots.

Seen: n_slots in llama-server's log, which Ollama sets by OLLAMA_NUM_PARALLEL. Slots share the context of -c, and each
keeps windows and states of its own.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("parallel",), engines=("llamacpp", "ollama"))
