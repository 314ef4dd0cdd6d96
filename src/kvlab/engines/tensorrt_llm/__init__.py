"""TensorRT-LLM's `trtllm-serve`: https://github.com/NVIDIA/TensorRT-LLM."""

from __future__ import annotations

from kvlab.core.engine import Engine

ENGINE = Engine(name="tensorrt-llm", title="TensorRT-LLM", version="1.3.0", kv_flag="kv_cache_config.dtype")
