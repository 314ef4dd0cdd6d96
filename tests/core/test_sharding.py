"""What ranks load, against layouts that vLLM's model classes document: column- and row-parallel, replicated, padded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvlab.core.model import Tensor
from kvlab.core.sharding import Split, is_draft, is_tower, share

WHOLE = Split(stages=(range(2),), layers=2)


def split(tp: int, **more: object) -> Split:
    return Split(**{"tp": tp, "experts": tp, "stages": (range(2),), "layers": 2, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "ranks", "share_of"),
    [
        ("model.layers.0.self_attn.q_proj.weight", 4, 1 / 4),
        ("model.layers.0.self_attn.o_proj.weight", 4, 1 / 4),
        ("model.layers.0.self_attn.k_proj.weight", 4, 1 / 2),  # 2 KV heads over 4 ranks: each is kept twice
        ("model.layers.0.self_attn.k_proj.weight", 2, 1 / 2),
        ("model.layers.0.mlp.gate_proj.qweight", 4, 1 / 4),
        ("model.layers.0.mlp.gate.weight", 4, 1),  # ReplicatedLinear: the router
        ("model.layers.0.mlp.experts.7.down_proj.weight", 4, 1 / 4),
        ("model.layers.0.input_layernorm.weight", 4, 1),
        ("model.layers.0.self_attn.kv_a_proj_with_mqa.weight", 4, 1),  # ReplicatedLinear of latent attention
        ("model.layers.0.self_attn.q_a_proj.weight", 4, 1),
        ("model.layers.0.self_attn.kv_b_proj.weight", 4, 1 / 4),
        ("model.layers.0.self_attn.indexer.wq_b.weight", 4, 1),
        ("model.layers.0.linear_attn.in_proj_qkvz.weight", 4, 1 / 4),
        ("model.embed_tokens.weight", 4, 1 / 4),
        ("lm_head.weight", 4, 1 / 4),
    ],
)
def test_the_share_of_one_rank(name: str, ranks: int, share_of: float) -> None:
    tensor = Tensor(name, 1_000_000, rows=128, columns=64)
    found = share((tensor,), split(ranks, kv_heads={0: 2, 1: 2}))
    assert found.bytes == found.low == found.high == round(share_of * 1_000_000)


def test_a_vocabulary_is_padded_before_it_is_split() -> None:
    # VocabParallelEmbedding pads to a multiple of 64: 32,001 rows become 32,064
    found = share((Tensor("model.embed_tokens.weight", 32_001 * 8, rows=32_001, columns=4),), split(2))
    assert found.bytes == 32_064 * 8 // 2


def test_a_fused_projection_keeps_a_copy_of_scarce_heads() -> None:
    # 8 query heads and 2 KV heads of one size over 4 ranks: 2 + 1 + 1 of 12 heads
    found = share(
        (Tensor("transformer.h.0.attn.query_key_value.weight", 1200, rows=12, columns=50),),
        split(4, heads=8, kv_heads={0: 2}),
    )
    assert found.bytes == 400


def test_stages_hold_their_layers_the_first_the_embeddings_the_last_the_head() -> None:
    tensors = tuple(Tensor(f"model.layers.{layer}.mlp.up_proj.weight", 100, 10, 10) for layer in range(4))
    embedding, head = Tensor("model.embed_tokens.weight", 64, 64, 1), Tensor("lm_head.weight", 640, 64, 10)
    stages = (range(2), range(2, 4))
    assert share((*tensors, embedding, head), split(1, stages=stages, layers=4)).bytes == 200 + 640
    # without a head of its own, the last stage loads the embeddings too
    assert share((*tensors, embedding), split(1, stages=stages, layers=4)).bytes == 200 + 64


def test_draft_layers_are_loaded_to_speculate_only() -> None:
    tensors = (
        Tensor("model.layers.1.mlp.up_proj.weight", 100, 10, 10),
        Tensor("model.layers.2.mlp.up_proj.weight", 100, 10, 10),  # beyond the two layers of the trunk
        Tensor("mtp.layers.0.mlp.up_proj.weight", 100, 10, 10),
    )
    assert share(tensors, WHOLE).bytes == 100
    assert share(tensors, split(1, drafts=True)).bytes == 300
    assert [is_draft(tensor.name, 2) for tensor in tensors] == [False, True, True]


def test_a_tower_may_be_copied_or_split() -> None:
    assert is_tower("visual.blocks.0.attn.qkv.weight")
    assert is_tower("model.vision_tower.encoder.layers.0.mlp.fc1.weight")
    assert not is_tower("model.layers.0.mlp.up_proj.weight")
    found = share((Tensor("visual.blocks.40.attn.qkv.weight", 400, 20, 20),), split(4))
    assert (found.low, found.bytes, found.high) == (100, 100, 400)


NAMES = ("layers.0.q_proj", "layers.1.mlp.experts.0.up_proj", "layers.1.norm", "embed_tokens", "lm_head", "visual.x.y")


@given(
    sizes=st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 1 << 40)), max_size=8),
    tp=st.sampled_from((1, 2, 4, 8)),
)
def test_ranks_hold_the_whole_and_never_more_each_than_it(sizes: list[tuple[str, int]], tp: int) -> None:
    tensors = tuple(Tensor(name, size, 64, 64) for name, size in sizes)
    total = sum(size for _, size in sizes)
    found = share(tensors, split(tp))
    assert found.low <= found.bytes <= found.high <= total + len(sizes)
    assert found.bytes * tp >= total - tp
    assert abs(share(tensors, split(1)).bytes - total) <= 1
