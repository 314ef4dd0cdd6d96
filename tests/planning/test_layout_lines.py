"""The rows of a plan's layout sum to what a token and a request cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"


@pytest.mark.parametrize(
    ("config", "engine"),
    [
        ("MiniMaxAI__MiniMax-M3", "vllm"),
        ("MiniMaxAI__MiniMax-M3", "llamacpp"),
        ("deepseek-ai__DeepSeek-V3.2", "vllm"),
        ("Qwen__Qwen3-Next-80B-A3B-Instruct", "vllm"),
    ],
)
def test_rows_sum_to_a_token(config: str, engine: str) -> None:
    plan = api.plan(CONFIGS / f"{config}.json", engine=engine, context=8192, gpu="h100-80gb", pool_gib=64)
    assert sum(row.bytes_per_token for row in plan.layout) == plan.kv.bytes_per_token


def test_an_indexer_beside_plain_heads_keeps_sixteen_bits() -> None:
    # vLLM 0.32.0's spec of MiniMax-M3: 57 layers, head size 128, bfloat16, pages of 32,768 bytes for 128 tokens
    plan = api.plan(CONFIGS / "MiniMaxAI__MiniMax-M3.json", context=8192, gpu="h100-80gb", pool_gib=64)
    (indexer,) = (row for row in plan.layout if row.kind == "indexer")
    assert indexer.bytes_per_token == 57 * 32768 // 128
