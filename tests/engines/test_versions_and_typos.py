"""Versions and flags that do not exist, for every engine: refused by name, or doubted, never dropped."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvlab import api, engines
from kvlab.core.errors import BadInput, KvlabError

QWEN = Path(__file__).parents[1] / "golden" / "configs" / "Qwen__Qwen3-8B.json"
TO_COME = {"llamacpp": "b999999"}
"""How a release of next year is written, where it is not 99.9."""


def plan(engine: str, **options: str) -> list[str]:
    """Keys of the plan's doubts."""
    return [doubt.key for doubt in api.plan(QWEN, engine=engine, pool_gib=20, context=4096, **options).doubts]  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", engines.names())
def test_a_release_to_come_is_doubted(engine: str) -> None:
    assert "engine-version" in plan(engine, engine_version=TO_COME.get(engine, "99.9"))
    assert "engine-version" not in plan(engine)


def test_a_minor_release_to_come_is_doubted() -> None:
    assert "engine-version" in plan("vllm", engine_version="0.99")


@pytest.mark.parametrize("engine", engines.names())
@pytest.mark.parametrize("version", ["abc", "0.0", "7", "1.2.x", "0.33 or so", "-1.0"])
def test_what_is_no_release_is_refused(engine: str, version: str) -> None:
    with pytest.raises(KvlabError) as refused:
        plan(engine, engine_version=version)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(
    ("engine", "flag", "meant"),
    [
        ("sglang", "context-lenght", "--context"),
        ("sglang", "mem-fraction-statc", "mem-fraction-static"),
        ("sglang", "kv-cache-dtyp", "--kv-dtype"),
        ("lmdeploy", "session-lenn", "--context"),
        ("lmdeploy", "quant-polcy", "--kv-dtype"),
        ("tensorrt-llm", "max-seq-lenn", "--context"),
        ("tensorrt-llm", "kv_cache_config.dtypes", "--kv-dtype"),
        ("ollama", "num-gpus", "num_gpu"),
        ("llamacpp", "ctx-sise", "--context"),
        ("vllm", "max-model-le", "--context"),
    ],
)
def test_misspelt_flags_are_refused(engine: str, flag: str, meant: str) -> None:
    with pytest.raises(BadInput, match=f"did you mean {meant}"):
        api.plan(QWEN, engine=engine, engine_args={flag: "1"}, pool_gib=20)


@pytest.mark.parametrize(
    ("engine", "flag"),
    [
        ("sglang", "dp-attention-tp"),
        ("sglang", "schedule-policy"),
        ("lmdeploy", "num-cpu-blocks"),
        ("tensorrt-llm", "moe_tensor_parallel_size"),
        ("tensorrt-llm", "kv_cache_config.enable_partial_reuse"),
        ("ollama", "OLLAMA_FLASH_ATTENTION"),
    ],
)
def test_other_flags_pass(engine: str, flag: str) -> None:
    api.plan(QWEN, engine=engine, engine_args={flag: "1"}, pool_gib=20, context=4096)
