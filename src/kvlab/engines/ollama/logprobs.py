"""Log-probabilities of given texts: none."""

from __future__ import annotations

from kvlab.core.scoring import NoScores

SCORES = NoScores("takes text alone and no token ids, so no text can be forced token by token")
