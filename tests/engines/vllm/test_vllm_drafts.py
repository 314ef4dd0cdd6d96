"""`--speculative-config`: what vLLM 0.32.0 refuses, and what it adds. Its numbers are rows of truth.jsonl.gz."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kvlab import engines
from kvlab.core.engine import Deployment
from kvlab.core.errors import BadInput

ROW = {"cc": "sm90", "tp": 1, "pp": 1, "dcp": 1, "dtype": "auto", "context": 8192, "batched": 8192, "block": None}
Deploy = Callable[[dict[str, Any]], Deployment]


def row(config: str, speculative: object, **more: object) -> dict[str, Any]:
    text = speculative if isinstance(speculative, str) else json.dumps(speculative)
    return {**ROW, "config": config, "pool": 40 << 30, "args": {"speculative-config": text}, **more}


@pytest.mark.parametrize(
    ("config", "speculative", "says"),
    [
        ("deepseek-ai__DeepSeek-V3", "mtp", "must be a JSON object"),
        ("deepseek-ai__DeepSeek-V3", {"method": "mtp", "num_speculative_tokens": 0}, "whole number from 1"),
        ("deepseek-ai__DeepSeek-V3", {"method": "mtp", "num_speculative_tokens": True}, "whole number from 1"),
        # vllm/config/speculative.py raises NotImplementedError: "Unsupported speculative method: 'mtp'".
        ("MiniMaxAI__MiniMax-M2.7", {"method": "mtp", "num_speculative_tokens": 1}, "minimax_m2"),
        ("Qwen__Qwen3-8B", {"method": "mtp", "num_speculative_tokens": 1}, "qwen3"),
    ],
)
def test_what_cannot_draft_is_refused(deploy: Deploy, config: str, speculative: object, says: str) -> None:
    with pytest.raises(BadInput, match=says):
        engines.planner("vllm").carve(deploy(row(config, speculative)))


@pytest.mark.parametrize("speculative", [{"method": "eagle3", "model": "a/b"}, {"method": "mtp", "model": "a/b"}])
def test_a_draft_model_of_its_own_is_doubted(deploy: Deploy, speculative: object) -> None:
    carved = engines.planner("vllm").carve(deploy(row("deepseek-ai__DeepSeek-V3", speculative)))
    assert [doubt.key for doubt in carved.doubts] == ["speculative-config"]


@pytest.mark.parametrize("flag", ["speculative_config", "speculative-config.method"])
def test_other_spellings_of_the_flag_are_seen(deploy: Deploy, flag: str) -> None:
    value = "mtp" if "." in flag else '{"method": "mtp", "num_speculative_tokens": 1}'
    deployment = deploy({**row("deepseek-ai__DeepSeek-V3", {}), "args": {flag: value}})
    carved = engines.planner("vllm").carve(deployment)
    assert carved.kv.bytes_per_token == (61 if "." in flag else 62) * 1152
    assert [doubt.key for doubt in carved.doubts] == (["speculative-config"] if "." in flag else [])


def test_a_draft_layer_belongs_to_the_last_stage(deploy: Deploy) -> None:
    # vLLM gives the stages 31 and 30 of DeepSeek-V3's 61 layers; the draft layer evens them out.
    plain = deploy({**row("deepseek-ai__DeepSeek-V3", {}), "pp": 2, "args": {}})
    drafted = deploy(row("deepseek-ai__DeepSeek-V3", {"method": "mtp"}, pp=2))
    costs = [engines.planner("vllm").carve(asked).kv.bytes_per_token for asked in (plain, drafted)]
    assert costs == [31 * 576 * 2] * 2
