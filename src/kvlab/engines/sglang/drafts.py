"""Draft layers of the checkpoint itself (multi-token prediction), which SGLang sizes with the cache since 0.5.14."""

from __future__ import annotations

from kvlab.core.layout import Layout, Row
from kvlab.core.plan import Ask
from kvlab.engines.sglang.versions import Release, release

FLAG = "speculative-algorithm"
RUNNING = 48
"""Requests that run together with drafts when no limit is asked for."""
_COUNTED_SINCE: Release = (0, 5, 14)
_OWN = ("EAGLE", "NEXTN")


def draft_rows(layout: Layout, ask: Ask) -> tuple[Row, ...]:
    """Rows of the checkpoint's own draft layers, where the request drafts with them and SGLang counts them.

    Empty where their cache is not computed here: separate draft models, releases before 0.5.14, drafts beside
    recurrent state, window pools or pipeline stages.
    """
    own = (ask.arg(FLAG) or "").upper() in _OWN and ask.arg("speculative-draft-model-path") is None
    plain = not any(layout.only("state")) and not layout.windowed and ask.pp == 1
    return layout.draft if own and plain and release(ask) >= _COUNTED_SINCE else ()
