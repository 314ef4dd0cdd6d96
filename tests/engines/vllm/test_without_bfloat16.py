"""GPUs below compute capability 8.0: "Bfloat16 is only supported on GPUs with compute capability of at least 8.0" is
what vLLM says to an explicit bfloat16; by itself it falls back ("Your device ... doesn't support torch.bfloat16").
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvlab import api

CONFIGS = Path(__file__).parents[2] / "golden" / "configs"
QWEN = CONFIGS / "Qwen__Qwen2.5-1.5B.json"


def doubted(plan: Any) -> dict[str, str]:
    return {doubt.key: doubt.text for doubt in plan.doubts}


def test_auto_is_float16_on_turing_and_costs_the_same() -> None:
    old, new = (api.plan(QWEN, gpu=gpu, context=8192) for gpu in ("t4-16gb", "l4-24gb"))
    assert (old.kv.dtype, new.kv.dtype) == ("float16", "bfloat16")
    assert old.kv.bytes_per_token == new.kv.bytes_per_token
    assert "bfloat16" not in [other.kv_dtype for other in old.alternatives]
    assert "dtype" not in doubted(old)


def test_the_search_plans_float16_there() -> None:
    found = api.plan(QWEN, gpu="t4*,", users=4, context=8192).candidates
    assert found is not None
    assert {row.kv_dtype for row in found.rows} <= {"float16", "fp8"}
    assert "float16" in {row.kv_dtype for row in found.rows}


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"kv_dtype": "bfloat16"}, "kv-cache-dtype"),
        ({"engine_args": {"dtype": "bfloat16"}}, "dtype"),
        ({"engine_version": "0.8.0"}, "dtype"),
    ],
)
def test_what_is_refused_is_doubted_there_alone(options: dict[str, Any], key: str) -> None:
    assert "7.5" in doubted(api.plan(QWEN, gpu="t4-16gb", context=8192, **options))[key]
    assert key not in doubted(api.plan(QWEN, gpu="l4-24gb", context=8192, **options))


def test_a_model_that_takes_no_float16_is_computed_in_float32() -> None:
    plan = api.plan(CONFIGS / "google__gemma-3-27b-it.json", gpu="t4-16gb", tp=8, context=8192)
    assert plan.kv.dtype == "float32"
    assert "float32" in doubted(plan)["dtype"]
