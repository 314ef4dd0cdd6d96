"""Caches that are not the text's: an encoder's output, and recurrent states without attention."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvlab import api
from kvlab.core.errors import BadInput, MissingFact, UnknownModel

CONFIGS = Path(__file__).parents[1] / "golden" / "configs"
VISION = CONFIGS / "meta-llama__Llama-3.2-90B-Vision-Instruct.json"
WHISPER = {
    # openai/whisper-large-v3
    "architectures": ["WhisperForConditionalGeneration"],
    "model_type": "whisper",
    "is_encoder_decoder": True,
    "d_model": 1280,
    "decoder_attention_heads": 20,
    "decoder_layers": 32,
    "decoder_ffn_dim": 5120,
    "encoder_attention_heads": 20,
    "encoder_layers": 32,
    "encoder_ffn_dim": 5120,
    "num_hidden_layers": 32,
    "num_mel_bins": 128,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "vocab_size": 51866,
    "torch_dtype": "float16",
}
MAMBA = {
    # state-spaces/mamba-130m-hf
    "architectures": ["MambaForCausalLM"],
    "model_type": "mamba",
    "hidden_size": 768,
    "intermediate_size": 1536,
    "num_hidden_layers": 24,
    "state_size": 16,
    "conv_kernel": 4,
    "expand": 2,
    "time_step_rank": 48,
    "vocab_size": 50280,
    "torch_dtype": "bfloat16",
}


def written(folder: Path, config: dict[str, object]) -> Path:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return path


def test_whisper_is_carved_as_vllms_own_code_does_it(tmp_path: Path) -> None:
    """vLLM 0.32's planner on 40 GiB: 16,384 blocks; a request takes 28 for its text and 94 for 30 s of sound."""
    plan = api.plan(written(tmp_path, WHISPER), pool_gib=40.0)
    assert plan.capacity is not None
    assert (plan.capacity.num_blocks, plan.capacity.tokens) == (16_384, 60_164)
    assert round(plan.capacity.max_concurrency, 2) == 134.30
    assert plan.kv.bytes_per_sequence == (28 + 94) * 2_621_440
    assert [(row.kind, row.bytes_per_token) for row in plan.layout] == [("full", 163_840), ("cross", 0)]


def test_whisper_that_does_not_say_how_long_its_sound_is(tmp_path: Path) -> None:
    with pytest.raises(UnknownModel, match="max_source_positions"):
        api.plan(written(tmp_path, {key: value for key, value in WHISPER.items() if key != "max_source_positions"}))
    with pytest.raises(BadInput, match="a divisor of the width"):
        api.plan(written(tmp_path, {**WHISPER, "decoder_attention_heads": 21}))


def test_recurrent_layers_alone_are_carved_as_a_real_vllm_printed(tmp_path: Path) -> None:
    """vLLM 0.32.0 on a CPU with 1 GiB: "CPU KV cache size: 851,968 tokens, Maximum concurrency for 2,048 ...: 416.00x".

    It said "Reset SSM cache type to float32" before, so that is what is planned.
    """
    asked = {"mamba-ssm-cache-dtype": "float32"}
    plan = api.plan(written(tmp_path, MAMBA), gpu="cpu", pool_gib=1.0, context=2048, engine_args=asked)
    assert plan.capacity is not None
    assert (plan.capacity.tokens, plan.capacity.max_concurrency) == (851_968, 416.0)
    assert plan.doubts == ()


def test_an_image_is_kept_once_whatever_the_text() -> None:
    """The text layers are those of Llama-3-70B, whose token costs 327,680 bytes; an image has up to 4 x 1,601."""
    plan = api.plan(VISION, context=8192)
    full, cross = plan.layout
    assert (full.layers, full.bytes_per_token) == (80, 327_680)
    assert (cross.layers, cross.bytes_per_token) == (20, 0)
    assert cross.bytes_per_sequence == 20 * 4 * 1601 * 4096
    assert plan.capacity is None
    assert "serves no model whose layers look at an image alone" in plan.doubts[0].text


def test_an_image_of_unknown_size_is_refused(tmp_path: Path) -> None:
    config = json.loads(VISION.read_text())
    del config["vision_config"]
    with pytest.raises((MissingFact, UnknownModel), match="vision_config"):
        api.plan(written(tmp_path, config))


def test_rwkv_keeps_two_tokens_and_a_matrix_a_head() -> None:
    """llama.cpp keeps both in f32: 2 x n_embd and n_embd x wkv_head_size values a layer."""
    plan = api.plan(CONFIGS / "RWKV__rwkv-5-world-3b.json", engine="llamacpp", parallel=1)
    stated = {row.name: row.value for row in plan.expects}
    assert plan.kv.bytes_per_token == 0
    assert stated["kv_state_bytes"] == 32 * 4 * (2 * 2560 + 2560 * 64)


def test_rwkv_7_is_not_taken_for_attention_that_lacks_its_heads(tmp_path: Path) -> None:
    # fla-hub/rwkv7-0.1B-g1, abridged
    config: dict[str, object] = {"model_type": "rwkv7", "hidden_size": 768, "head_dim": 64, "num_hidden_layers": 12}
    config |= {"a_low_rank_dim": 64, "decay_low_rank_dim": 64, "gate_low_rank_dim": 128, "v_low_rank_dim": 32}
    config |= {"max_position_embeddings": 4096, "vocab_size": 65536, "torch_dtype": "bfloat16", "value_dim": [768] * 12}
    plan = api.plan(written(tmp_path, config), engine="llamacpp", parallel=1)
    assert {row.name: row.value for row in plan.expects}["kv_state_bytes"] == 12 * 4 * (2 * 768 + 768 * 64)
    with pytest.raises(BadInput, match="value_dim"):
        api.plan(written(tmp_path, {**config, "value_dim": [1024] * 12}))
