"""The micro-batch has another size.

Seen: n_ubatch in llama-server's log. A window's cache holds the window and one micro-batch, and the compute buffer
grows with it.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("ubatch",), engines=("llamacpp", "ollama"))
