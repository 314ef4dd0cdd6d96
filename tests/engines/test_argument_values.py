"""Engine arguments whose values cannot be: refused in one line, or doubted where the plan does not count them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.errors import BadInput

QWEN = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen2.5-0.5B.json"


@pytest.mark.parametrize(
    ("engine", "flag", "value", "why"),
    [
        ("vllm", "num-gpu-blocks-override", "9" * 23, "a number of blocks from 1"),
        ("vllm", "num-gpu-blocks-override", "²", "a number of blocks from 1"),
        ("vllm", "num-gpu-blocks-override", "9" * 5000, "a number of blocks from 1"),
        ("ollama", "OLLAMA_GPU_OVERHEAD", "90000000000", "keeps free more than the GPU's"),
        ("ollama", "OLLAMA_GPU_OVERHEAD", "9" * 5000, "must be a number of bytes"),
        ("ollama", "OLLAMA_GPU_OVERHEAD", "²", "must be a number of bytes"),
        ("tensorrt-llm", "kv_cache_config", "5", "name an entry"),
        ("tensorrt-llm", "a..b", "5", "name an entry"),
        ("vllm", "a b", "1", "no name of a flag"),
        ("vllm", "\x1b[31m", "1", "no name of a flag"),
        ("vllm", "", "1", "no name of a flag"),
    ],
)
def test_values_that_cannot_be_are_refused(engine: str, flag: str, value: str, why: str) -> None:
    with pytest.raises(BadInput, match=why):
        api.plan(QWEN, engine=engine, gpu="h100-80gb", engine_args={flag: value})


@pytest.mark.parametrize(
    ("engine", "flag", "value"),
    [
        ("vllm", "cpu-offload-gb", "10"),
        ("sglang", "json-model-override-args", '{"num_hidden_layers": 2}'),
        ("tensorrt-llm", "kv_cache_config.max_attention_window", "[1]"),
        ("ollama", "num_gpu", "0"),
    ],
)
def test_what_is_not_counted_is_doubted(engine: str, flag: str, value: str) -> None:
    plan = api.plan(QWEN, engine=engine, gpu="h100-80gb", engine_args={flag: value})
    assert flag in {doubt.key for doubt in plan.doubts}


def test_a_release_to_come_is_doubted_by_every_engine() -> None:
    for engine in ("vllm", "sglang", "lmdeploy", "tensorrt-llm", "ollama"):
        plan = api.plan(QWEN, engine=engine, gpu="h100-80gb", engine_version="9999.1")
        assert "engine-version" in {doubt.key for doubt in plan.doubts}
