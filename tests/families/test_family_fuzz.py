"""Damaged configs: an answer with believable sizes, or one line; never a traceback."""

from __future__ import annotations

import json
import random
from functools import cache
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kvlab.core.config import Config
from kvlab.core.errors import KvlabError
from kvlab.families import understand
from kvlab.source import model, parse, refuse

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"
NAMES = sorted(path.name for path in CONFIGS.glob("*.json"))
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-4, 300),
    st.floats(),
    st.text(max_size=8),
    st.lists(st.one_of(st.integers(-2, 3), st.text(max_size=3)), max_size=4),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.sampled_from(
        ["full_attention", "sliding_attention", "linear_attention", "conv", "mamba", "auto", "", "float32"]
    ),
)
KEYS = [
    *("sliding_window", "layer_types", "num_kv_shared_layers", "kv_lora_rank", "qk_rope_head_dim", "model_type"),
    *("linear_num_value_heads", "attn_type_list", "block_configs", "hybrid_override_pattern", "attention_chunk_size"),
    *("conv_L_cache", "mamba_d_state", "num_kv_heads", "text_config", "rope_scaling", "quantization_config"),
    *("head_dim", "multi_query", "is_encoder_decoder", "architectures"),
]


@cache
def golden(name: str) -> Any:
    return json.loads((CONFIGS / name).read_text())


def check(config: Config) -> None:
    """Read the config as `source.load` does."""
    refused = None
    try:
        refuse.other_files(config)
        understood = understand(config)
        described = model.model(config, "name", understood)
    except KvlabError as error:
        refused = str(error)
    if refused is not None:
        assert len(refused.splitlines()) == 1
        return
    assert understood.layout.rows
    assert described.layers > 0
    for row in understood.layout.rows:
        assert row.layers
        assert min(row.layers) >= 0
        assert all(state.values > 0 for state in row.state)
        assert (row.state and row.kind == "state") or min(row.heads, row.k_dim) > 0
        assert row.window is None or row.window > 0


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(NAMES), st.randoms(use_true_random=False), st.lists(VALUES, min_size=1, max_size=3))
def test_mutated_configs(name: str, dice: random.Random, values: list[Any]) -> None:
    config = json.loads(json.dumps(golden(name)))
    for value in values:
        place = config
        nested = [place[key] for key in ("text_config", "language_config") if isinstance(place.get(key), dict)]
        if nested and dice.random() < 0.8:
            place = nested[0]
        key = dice.choice([*sorted(place), *KEYS])
        if dice.random() < 0.25:
            place.pop(key, None)
        else:
            place[key] = value
    check(Config(config, name))


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([*KEYS, "num_hidden_layers", "num_attention_heads", "hidden_size"]), VALUES))
def test_configs_from_nothing(values: dict[str, Any]) -> None:
    check(Config(values, "config.json"))


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(NAMES), st.integers(0, 10_000))
def test_bytes(junk: bytes, name: str, cut: int) -> None:
    whole = (CONFIGS / name).read_bytes()
    for data in (junk, whole[:cut], whole[:cut] + junk):
        refused = "one line"
        try:
            check(parse.config(data, name))
        except KvlabError as error:
            refused = str(error)
        assert len(refused.splitlines()) == 1
