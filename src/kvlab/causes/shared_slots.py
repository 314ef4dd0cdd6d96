"""The slots share one cache, or each has its own, unlike in the plan.

Seen: kv_unified in llama-server's log. One cache for all slots lets a single request have all of the context.
"""

from __future__ import annotations

from kvlab.core.cause import Cause

CAUSE = Cause(settings=("kv_unified",), engines=("llamacpp", "ollama"))
