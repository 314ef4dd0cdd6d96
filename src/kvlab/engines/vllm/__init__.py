"""vLLM: https://github.com/vllm-project/vllm."""

from __future__ import annotations

from kvlab.core.engine import Engine

ENGINE = Engine(name="vllm", title="vLLM", version="0.32.0", kv_flag="--kv-cache-dtype")
