"""SGLang: https://github.com/sgl-project/sglang."""

from __future__ import annotations

from kvlab.core.engine import Engine

ENGINE = Engine(name="sglang", title="SGLang", version="0.5.23", kv_flag="--kv-cache-dtype")
