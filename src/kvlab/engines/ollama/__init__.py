"""Ollama, which runs a llama-server for every model since 0.30: https://github.com/ollama/ollama."""

from __future__ import annotations

from kvlab.core.engine import Engine

ENGINE = Engine(name="ollama", title="Ollama", version="0.33.0", kv_flag="OLLAMA_KV_CACHE_TYPE")
