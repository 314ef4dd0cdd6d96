"""Spellings and shapes that no golden config shows, with the numbers that their publishers or engines state."""

from __future__ import annotations

from typing import Any

import pytest

from kvlab.core.config import Config
from kvlab.core.errors import BadInput, MissingFact, UnknownModel
from kvlab.core.family import Understood
from kvlab.core.layout import Row
from kvlab.families import GENERAL, families, family, understand


def read(**values: Any) -> Understood:
    return understand(Config(values, "config.json"))


def kept(row: Row) -> tuple[str, int, int, int, int, int | None]:
    return row.kind, len(row.layers), row.heads, row.k_dim, row.v_dim, row.window


LLAMA = {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 8}


@pytest.mark.parametrize(
    ("values", "row"),
    [
        # Falcon-7B: 71 heads of 64, one shared (arXiv 2311.16867, table 15).
        (
            {
                "model_type": "falcon",
                "num_hidden_layers": 32,
                "hidden_size": 4544,
                "num_attention_heads": 71,
                "multi_query": True,
                "new_decoder_architecture": False,
            },
            ("full", 32, 1, 64, 64, None),
        ),
        # Falcon-40B: 8 KV heads of 64.
        (
            {
                "model_type": "falcon",
                "num_hidden_layers": 60,
                "hidden_size": 8192,
                "num_attention_heads": 128,
                "num_kv_heads": 8,
                "multi_query": True,
                "new_decoder_architecture": True,
            },
            ("full", 60, 8, 64, 64, None),
        ),
        # MPT-7B: 32 heads of 128.
        (
            {
                "model_type": "mpt",
                "n_layers": 32,
                "d_model": 4096,
                "n_heads": 32,
                "attn_config": {"attn_type": "multihead_attention"},
            },
            ("full", 32, 32, 128, 128, None),
        ),
        # GPT-J-6B: 28 layers, 16 heads of 256.
        (
            {"model_type": "gptj", "n_layer": 28, "n_head": 16, "n_embd": 4096, "rotary_dim": 64},
            ("full", 28, 16, 256, 256, None),
        ),
    ],
)
def test_key_spellings(values: dict[str, Any], row: tuple[object, ...]) -> None:
    understood = read(**values)
    assert [kept(found) for found in understood.layout.rows] == [row]
    assert understood.doubts == ()


def test_gemma_3_12b_leaves_its_head_size_to_the_class() -> None:
    # vLLM 0.32, real model class: 8 full and 40 sliding layers of 8 heads x 256 (block 1,048,576 B for 8 layers).
    text = {
        "model_type": "gemma3_text",
        "hidden_size": 3840,
        "num_attention_heads": 16,
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
    }
    rows = read(model_type="gemma3", text_config=text).layout.rows
    assert [kept(row) for row in rows] == [("window", 40, 8, 256, 256, 1024), ("full", 8, 8, 256, 256, None)]
    assert rows[1].layers == (5, 11, 17, 23, 29, 35, 41, 47)


def test_gemma_3n_shares_the_caches_of_its_last_layers() -> None:
    # vLLM 0.32 for Gemma-3n-E4B: 20 of 35 layers own a cache, 4 full and 16 sliding.
    kinds = ["full_attention" if (layer + 1) % 5 == 0 else "sliding_attention" for layer in range(35)]
    text = {
        "model_type": "gemma3n_text",
        "hidden_size": 2048,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "num_hidden_layers": 35,
        "num_kv_shared_layers": 15,
        "sliding_window": 512,
        "layer_types": kinds,
    }
    rows = read(model_type="gemma3n", text_config=text).layout.rows
    assert [kept(row) for row in rows] == [("window", 16, 2, 256, 256, 512), ("full", 4, 2, 256, 256, None)]


def test_qwen2_window_covers_the_layers_above_max_window_layers() -> None:
    # transformers' Qwen2Config: layer i slides when use_sliding_window and i >= max_window_layers.
    rows = read(**{**LLAMA, "model_type": "qwen2"}, use_sliding_window=True, sliding_window=128, max_window_layers=3)
    assert [(row.kind, row.layers) for row in rows.layout.rows] == [("window", (3,)), ("full", (0, 1, 2))]


def test_llava_leaves_all_sizes_to_the_class() -> None:
    text = {"model_type": "llama", "max_position_embeddings": 4096, "vocab_size": 32064}
    assert [kept(row) for row in read(model_type="llava", text_config=text).layout.rows] == [
        ("full", 32, 32, 128, 128, None)  # Vicuna-7B
    ]


def test_longcat_flash_has_two_attentions_in_each_layer() -> None:
    # https://huggingface.co/meituan-longcat/LongCat-Flash-Chat: 28 layers; vLLM keeps a latent for each of 56 modules.
    found = read(
        model_type="longcat_flash",
        num_layers=28,
        hidden_size=6144,
        num_attention_heads=64,
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        mla_scale_q_lora=True,
        mla_scale_kv_lora=True,
        attention_method="MLA",
    )
    assert [kept(row) for row in found.layout.rows] == [("latent", 56, 1, 576, 0, None)]
    assert found.doubts == ()


def test_ling_2_5_ends_every_group_of_linear_layers_with_latent_attention() -> None:
    # vLLM 0.32, bailing_moe_linear.py: layer i is full where (i + 1) is a multiple of layer_group_size.
    found = read(
        model_type="bailing_hybrid",
        num_hidden_layers=20,
        hidden_size=2048,
        num_attention_heads=16,
        num_key_value_heads=16,
        head_dim=128,
        layer_group_size=5,
        kv_lora_rank=512,
        q_lora_rank=1536,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
    )
    linear, latent = found.layout.rows
    assert (len(linear.layers), linear.state[0].values) == (16, 16 * 128 * 128)
    assert (latent.layers, latent.k_dim) == ((4, 9, 14, 19), 576)
    assert found.doubts == ()


def test_jamba_mixes_mamba_1_and_attention() -> None:
    # arXiv 2403.19887: one attention layer in eight; state 16, convolution 4, expansion 2 on 4,096 channels.
    rows = read(
        model_type="jamba", num_hidden_layers=32, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8,
        attn_layer_period=8, attn_layer_offset=4, mamba_d_state=16, mamba_d_conv=4, mamba_expand=2,
        mamba_dt_rank=256, mamba_conv_bias=True, mamba_proj_bias=False, sliding_window=None,
    ).layout.rows  # fmt: skip
    assert [state.values for state in rows[0].state] == [8192 * 3, 8192 * 16]
    assert (len(rows[0].layers), rows[1].layers) == (28, (4, 12, 20, 28))


def test_plain_mamba_keeps_no_tokens() -> None:
    # llama.cpp's log for Mamba-130m: R 0.42 MiB, S 2.25 MiB of f32 values in 24 layers.
    (row,) = read(
        model_type="mamba", num_hidden_layers=24, hidden_size=768, state_size=16, conv_kernel=4, expand=2,
        intermediate_size=1536, time_step_rank=48, use_conv_bias=True,
    ).layout.rows  # fmt: skip
    sizes = [24 * 4 * state.values / (1 << 20) for state in row.state]
    assert [round(size, 2) for size in sizes] == [0.42, 2.25]


def test_falcon_mamba_states_its_channels() -> None:
    # arXiv 2410.05355, table 1: 64 layers, width 4,096, state 16, expansion 2; its config says expand 16.
    (row,) = read(
        model_type="falcon_mamba", num_hidden_layers=64, hidden_size=4096, state_size=16, conv_kernel=4, expand=16,
        intermediate_size=8192, time_step_rank=256,
    ).layout.rows  # fmt: skip
    assert [state.values for state in row.state] == [3 * 8192, 8192 * 16]


def test_falcon_h1_keeps_attention_and_a_state_in_every_layer() -> None:
    # https://huggingface.co/tiiuae/Falcon-H1-1.5B-Base
    rows = read(
        model_type="falcon_h1", num_hidden_layers=24, hidden_size=2048, num_attention_heads=8, num_key_value_heads=2,
        head_dim=128, mamba_d_ssm=3072, mamba_n_heads=48, mamba_d_head=64, mamba_d_state=256, mamba_n_groups=1,
        mamba_d_conv=4, mamba_expand=2, ssm_multipliers=[0.5],
    ).layout.rows  # fmt: skip
    assert [(row.kind, len(row.layers)) for row in rows] == [("state", 24), ("full", 24)]
    assert [state.values for state in rows[0].state] == [3 * (3072 + 2 * 256), 3072 * 256]


def test_sharing_that_is_switched_off_changes_nothing() -> None:
    assert read(**LLAMA, use_cla=False, cla_share_factor=2).layout == read(**LLAMA).layout


def test_minimax_01_alternates_lightning_and_softmax() -> None:
    # arXiv 2501.08313: softmax attention after every seven lightning layers; 64 heads of 128, 8 KV heads.
    rows = read(
        model_type="minimax", num_hidden_layers=80, hidden_size=6144, num_attention_heads=64, head_dim=128,
        num_key_value_heads=8, attn_type_list=([0] * 7 + [1]) * 10,
    ).layout.rows  # fmt: skip
    assert [len(row.layers) for row in rows] == [70, 10]
    assert rows[0].state[0].values == 64 * 128 * 128


@pytest.mark.parametrize(
    ("extra", "error", "words"),
    [
        ({"layer_types": ["full_attention", "gla", "gla", "gla"]}, UnknownModel, "'gla'"),
        ({"cla_share_factor": 2}, UnknownModel, "cla_share_factor"),
        ({"layer_group_size": 4}, UnknownModel, "layer_group_size"),
        ({"num_kv_groups": 2}, MissingFact, "num_kv_groups may mean it"),
        ({"num_attention_heads": 7}, MissingFact, "head_dim is not set"),
        ({"num_hidden_layers": -3}, BadInput, "num_hidden_layers is -3"),
        ({"num_hidden_layers": 10_001}, BadInput, "from 1 to 4,000"),
        ({"num_key_value_heads": True}, BadInput, "num_key_value_heads is True"),
        ({"num_key_value_heads": "8"}, BadInput, "num_key_value_heads is '8'"),
        ({"num_key_value_heads": 0}, BadInput, "num_key_value_heads is 0"),
        ({"head_dim": 10**9}, BadInput, "head_dim is 1000000000"),
        ({"layer_types": ["full_attention"]}, BadInput, "layer_types"),
        ({"kv_lora_rank": 512}, MissingFact, "qk_rope_head_dim"),
        ({"sliding_window": 64, "use_sliding_window": 1}, BadInput, "use_sliding_window is 1"),
    ],
)
def test_what_cannot_be_planned_is_named(extra: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error) as caught:
        read(**{**LLAMA, **extra})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unread_keys_that_may_touch_the_cache_are_doubts() -> None:
    understood = read(**LLAMA, num_sink_tokens=4, use_cache=True, kv_pruning_ratio=0.5, qkv_share=False)
    assert [doubt.key for doubt in understood.doubts] == ["num_sink_tokens", "kv_pruning_ratio"]


def test_the_general_family_leaves_a_key_of_every_other_shape_unread() -> None:
    # Otherwise asking it first would hide the shape.
    general = family(GENERAL)
    assert general not in families()
    assert len({one.name for one in families()}) == len(families()) >= 10
