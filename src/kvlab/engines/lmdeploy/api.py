"""LMDeploy's tokenizer endpoint works in one direction only."""

from __future__ import annotations

from kvlab.core.engine import NoTokenApi

TOKENS = NoTokenApi("turns text into token ids (/v1/encode) but not back")
