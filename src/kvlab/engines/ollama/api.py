"""Ollama has no tokenizer endpoints."""

from __future__ import annotations

from kvlab.core.engine import NoTokenApi

TOKENS = NoTokenApi("serves no endpoint that turns text into token ids and back")
