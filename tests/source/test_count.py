"""Counted weights against published counts and sizes, and what is not counted."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.core.config import Config
from kvlab.core.model import Weights
from kvlab.overhead import even
from kvlab.source import count

GOLDEN = Path(__file__).parents[1] / "golden"
CONFIGS = GOLDEN / "configs"
CHANNEL_FP8 = {
    "quant_method": "compressed-tensors",
    "ignore": ["lm_head"],
    "config_groups": {
        "group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
    },
}
FORMATS: dict[str, dict[str, Any]] = {
    **{f"mlx{bits}": {"group_size": 64, "bits": bits} for bits in (4, 5, 6, 8)},
    "awq4": {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True},
    "fp8-channel": CHANNEL_FP8,
}


def rows(name: str) -> list[dict[str, str]]:
    with (GOLDEN / "weights" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def config(name: str, **changes: object) -> Config:
    values = json.loads((CONFIGS / f"{name}.json").read_text())
    return Config({**values, **changes}, name)


@pytest.mark.parametrize("row", rows("parameters.csv"), ids=lambda row: row["config"])
def test_parameters_are_the_published_ones(row: dict[str, str]) -> None:
    assert count.parameters(config(row["config"])) == pytest.approx(int(row["parameters"]), rel=float(row["within"]))


SHAPES = [json.loads(line) for line in (GOLDEN / "weights" / "shapes.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape["name"])
def test_other_classes_have_their_published_count(shape: dict[str, Any]) -> None:
    assert count.parameters(Config(shape["config"], shape["name"])) == shape["parameters"]


@pytest.mark.parametrize("row", rows("checkpoints.csv"), ids=lambda row: f"{row['config']}-{row['format']}")
def test_bytes_are_those_of_published_checkpoints(row: dict[str, str]) -> None:
    changes = {}
    if row["format"]:
        changes["quantization_config"] = FORMATS.get(row["format"])
    weights, doubts = count.count(config(row["config"], **changes))
    assert weights is not None
    assert doubts == ()
    assert weights.low is not None
    assert weights.high is not None
    assert weights.low < weights.bytes < weights.high
    found = weights.bytes if row["drafts"] == "yes" else round(weights.low / 0.99)
    assert found == pytest.approx(int(row["bytes"]), rel=float(row["within"]) + 1e-9)
    assert weights.low <= int(row["bytes"]) <= weights.high


def test_towers_are_counted_where_their_shape_is_stated() -> None:
    # The safetensors metadata of these models on the Hub: 8.29 B and 4.15 B parameters.
    assert count.parameters(config("Qwen__Qwen2.5-VL-7B-Instruct")) == 8_292_166_656
    assert count.parameters(config("microsoft__Phi-3.5-vision-instruct")) == 4_146_621_440


def test_a_tower_that_is_not_counted_is_a_doubt_and_widens_the_range() -> None:
    values = json.loads((CONFIGS / "google__gemma-3-27b-it.json").read_text())
    values["vision_config"] = {"model_type": "a_new_tower"}
    weights, doubts = count.count(Config(values, "x"))
    assert weights is not None
    assert weights.high is not None
    assert [doubt.key for doubt in doubts] == ["vision_config"]
    assert weights.high - weights.bytes > 2_000_000_000


@pytest.mark.parametrize(
    "changes",
    [
        {"model_type": "a_new_model"},
        {"intermediate_size": None},
        {"torch_dtype": "int3"},
        {"torch_dtype": None, "transformers_version": "5.16.0"},
        {"quantization_config": {"quant_method": "a_new_method"}},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        {"quantization_config": {"quant_method": "gptq", "bits": 4000, "group_size": 128}},
        {"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}},
        {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["re:(a+)+b"]}},
    ],
)
def test_what_is_not_known_is_not_counted(changes: dict[str, object]) -> None:
    assert count.count(config("Qwen__Qwen3-8B", **changes)) == (None, ())


def test_modules_that_stay_unquantised() -> None:
    scheme = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    plain, _ = count.count(config("Qwen__Qwen3-8B"))
    every, _ = count.count(config("Qwen__Qwen3-8B", quantization_config=scheme))
    for listed in (["re:.*self_attn.*"], ["model.layers.*.self_attn"], ["self_attn"], ["model.layers.*.self_attn*"]):
        some, _ = count.count(config("Qwen__Qwen3-8B", quantization_config=scheme | {"modules_to_not_convert": listed}))
        assert plain is not None
        assert every is not None
        assert some is not None
        # 36 layers of 4096 x (4096 + 2 x 1024) + 4096 x 4096 values of two bytes instead of one.
        assert 0.99 < (some.bytes - every.bytes) / (36 * 41_943_040) <= 1
        assert every.bytes < some.bytes < plain.bytes


def test_the_range_of_an_estimate_reaches_the_ledger() -> None:
    taken = even(Weights(1000, "estimated", "counted", low=900, high=1200), 1)
    assert (taken.low, taken.bytes, taken.high, taken.kind) == (900, 1000, 1200, "estimated")
    exact = even(Weights(1000, "computed", "headers"), 1)
    assert (exact.low, exact.bytes, exact.high) == (1000, 1000, 1000)
    split = even(Weights(1000, "estimated", "counted", low=900, high=1200), 2)
    assert split.low == 450
    assert split.low < split.bytes < split.high == 690


NAMES = sorted(path.stem for path in CONFIGS.glob("*.json"))
VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 1 << 20), st.text(max_size=8), st.lists(st.integers(0, 300), max_size=3)
)


@settings(max_examples=150, deadline=None)
@given(name=st.sampled_from(NAMES), data=st.data())
def test_mutated_configs_are_counted_or_not(name: str, data: st.DataObject) -> None:
    values = json.loads((CONFIGS / f"{name}.json").read_text())
    nested = values.get("text_config")
    target = nested if isinstance(nested, dict) and data.draw(st.booleans()) else values
    for key in data.draw(st.lists(st.sampled_from(sorted(target)), min_size=1, max_size=3)):
        target[key] = data.draw(VALUES)
    weights, _ = count.count(Config(values, name))
    assert weights is None or (weights.low or 0) <= weights.bytes <= (weights.high or 0)


def test_modelopt_lists_of_layers_are_followed() -> None:
    named = {f"model.layers.{layer}.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16} for layer in range(48)}
    plain, _ = count.count(config("Qwen__Qwen3-30B-A3B"))
    mixed, _ = count.count(config("Qwen__Qwen3-30B-A3B"), _modelopt(named))
    other, _ = count.count(config("Qwen__Qwen3-30B-A3B"), _modelopt({"model.blocks.0.moe": {"quant_algo": "NVFP4"}}))
    assert plain is not None
    assert mixed is not None
    experts = 48 * 128 * 3 * 2048 * 768  # 28.99 B of 30.5 B parameters: two bytes become half a byte and a scale for 16
    assert plain.bytes - mixed.bytes == pytest.approx(experts * (2 - 4.5 / 8), rel=1e-9)
    assert other is None


def _modelopt(layers: dict[str, Any]) -> Config:
    return Config(
        {"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": layers}}, "hf_quant_config.json"
    )
