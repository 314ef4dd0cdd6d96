"""From safetensors headers to the ledger's weights: exact bytes, split as vLLM splits them."""

from __future__ import annotations

import json
import struct
from pathlib import Path

from kvlab import api, source

CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "hidden_size": 256,
    "num_attention_heads": 8,
    "num_hidden_layers": 1,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 4096,
    "moe_intermediate_size": 64,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "vocab_size": 512,
    "torch_dtype": "bfloat16",
}
TENSORS = {
    "model.embed_tokens.weight": (512, 256),
    "lm_head.weight": (512, 256),
    "model.norm.weight": (256,),
    "model.layers.0.input_layernorm.weight": (256,),
    "model.layers.0.self_attn.q_proj.weight": (256, 256),
    "model.layers.0.self_attn.k_proj.weight": (64, 256),
    "model.layers.0.self_attn.v_proj.weight": (64, 256),
    "model.layers.0.self_attn.o_proj.weight": (256, 256),
    "model.layers.0.mlp.gate.weight": (4, 256),
    **{f"model.layers.0.mlp.experts.{expert}.up_proj.weight": (64, 256) for expert in range(4)},
    "mtp.fc.weight": (256, 512),
}
DRAFT = 256 * 512 * 2


def write(folder: Path) -> int:
    """A checkpoint of bf16 tensors, sparse on disk; its bytes."""
    offset, header = 0, {}
    for name, shape in TENSORS.items():
        size = 2
        for side in shape:
            size *= side
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, offset + size]}
        offset += size
    encoded = json.dumps(header).encode()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(encoded)) + encoded)
        file.truncate(8 + len(encoded) + offset)
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return offset


def weights(folder: Path, **options: object) -> int:
    plan = api.plan(folder, gpu="h100-80gb", **options)  # type: ignore[arg-type]
    line = next(line for line in plan.ledger if line.name == "weights")
    assert line.kind == "computed"
    assert line.low == line.bytes == line.high
    return -line.bytes


def test_one_gpu_loads_all_but_the_draft_layers(tmp_path: Path) -> None:
    total = write(tmp_path)
    loaded = source.load(str(tmp_path))
    assert loaded.weights is not None
    assert loaded.weights.bytes == total
    experts = [tensor for tensor in loaded.weights.tensors if "experts" in tensor.name]
    assert [tensor.bytes for tensor in experts] == [4 * 64 * 256 * 2]  # those of a layer as one
    assert weights(tmp_path) == total - DRAFT


def test_ranks_copy_norms_router_and_the_two_kv_heads(tmp_path: Path) -> None:
    total = write(tmp_path)
    copied = 2 * (256 + 256 + 4 * 256)
    keys_and_values = 2 * 2 * 64 * 256
    split = total - DRAFT - copied - keys_and_values
    assert weights(tmp_path, tp=2) == copied + keys_and_values // 2 + split // 2
    assert weights(tmp_path, tp=4) == copied + keys_and_values // 2 + split // 4
