"""Log-probabilities of given texts: none."""

from __future__ import annotations

from kvlab.core.scoring import NoScores

SCORES = NoScores("is not known to state log-probabilities of a prompt")
