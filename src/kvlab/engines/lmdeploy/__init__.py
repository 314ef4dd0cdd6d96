"""LMDeploy's `lmdeploy serve api_server`: https://github.com/InternLM/lmdeploy."""

from __future__ import annotations

from kvlab.core.engine import Engine

ENGINE = Engine(name="lmdeploy", title="LMDeploy", version="0.18.0", kv_flag="--quant-policy")
