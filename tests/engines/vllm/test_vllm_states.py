"""Recurrent state on tensor-parallel ranks, against vLLM 0.32.0's MambaStateShapeCalculator.mamba2_state_shape."""

from __future__ import annotations

import pytest

from kvlab.core.config import Config
from kvlab.core.errors import BadInput
from kvlab.core.layout import Row
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.engines.vllm.states import state_bytes
from kvlab.families import understand

MODEL = Model(name="m", model_type="granitemoehybrid", dtype="bfloat16")


def mamba2(groups: int) -> Row:
    # Granite 4.0 H: 128 heads of 64, 128 values of state, a kernel of 4.
    values = {
        "model_type": "granitemoehybrid",
        "num_hidden_layers": 2,
        "layer_types": ["mamba", "attention"],
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "mamba_n_heads": 128,
        "mamba_d_head": 64,
        "mamba_d_state": 128,
        "mamba_d_conv": 4,
        "mamba_n_groups": groups,
    }
    (row,) = understand(Config(values, "config.json")).layout.only("state")
    return row


@pytest.mark.parametrize(
    ("tp", "drafted", "conv", "heads"),
    [
        (1, 0, (3, 8448), 128),
        (1, 2, (5, 8448), 128),
        (2, 0, (3, 4352), 64),
        (2, 2, (5, 4352), 64),
        (8, 0, (3, 1280), 16),
        (8, 2, (5, 1280), 16),
    ],
)
def test_every_rank_holds_the_only_group(tp: int, drafted: int, conv: tuple[int, int], heads: int) -> None:
    assert state_bytes(mamba2(1), MODEL, Ask(), tp, drafted) == 2 * (conv[0] * conv[1] + heads * 64 * 128)


def test_groups_that_cannot_be_split_are_refused() -> None:
    # vLLM asserts: "If tensor parallel world size does not divide num_groups, then num_groups must equal 1."
    with pytest.raises(BadInput, match="8 groups"):
        state_bytes(mamba2(8), MODEL, Ask(), 16, 0)
