"""Ollama's own llama-server is missing.

Symptom: Ollama 0.30 and later: "llama-server binary not found".

Cause: since 0.30 Ollama runs a llama-server that comes with it; the installation is incomplete, or only the ollama
program was copied.

Do:
- install again with the official script or package, lib/ollama included
- in a container: use the official image, not a copied binary

Source: https://github.com/ollama/ollama/releases
"""

from __future__ import annotations

from kvlab.core.rule import Rule

RULE = Rule(cost="setting")
