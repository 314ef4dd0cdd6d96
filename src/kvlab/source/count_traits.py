"""What a model's class fixes and its config does not say: biases, norms, gates, ties. Source: Transformers' classes.

A type that is not listed is not counted: a config alone does not say which matrices its class has.
"""

from __future__ import annotations

from typing import Literal

import msgspec


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """Values hold where the config has no key that says otherwise."""

    gated: bool = True
    """The MLP has a gate beside its up projection: three matrices instead of two."""
    qkv_bias: bool = False
    o_bias: bool | None = None
    """None: as the key for attention biases says."""
    mlp_bias: bool = False
    norms: int = 2
    """Norms over the hidden size in a layer."""
    norm_bias: bool = False
    final_norm: bool = True
    embedding_norm: bool = False
    """Embeddings are normalised before the first layer (BLOOM)."""
    layer: str = "attention"
    """What a layer holds where the config lists no kinds."""
    qk_norm: Literal["", "head", "width"] = ""
    """Norms of queries and keys: over one head's size, or over all heads together."""
    tied: bool = False
    positions: int | None = None
    """Learned positions: rows beyond the stated length (OPT adds two)."""
    ffn_factor: int | None = None
    """MLP width over the hidden size when no key states it."""
    ffn_halves: bool = False
    """The stated MLP width covers gate and up together (Qwen 1)."""
    head_bias: bool = False
    shared_gate: bool = False
    """A shared expert is scaled by a gate of its own."""
    experts_use_ffn: bool = False
    """Experts have the width of `intermediate_size`."""
    expert_bias: bool = False
    sinks: bool = False
    attention_gate: bool = False
    """The query projection also yields a gate of the same size."""
    draft_layers: int = 0
    """Multi-token prediction layers in the published checkpoints that no key states."""
    draft_copies: bool = True
    """A prediction layer carries its own copy of embeddings and head."""
    mlp: str = "mlp"
    mixer: str = "self_attn"


# fmt: off
_LLAMA = (
    "llama", "mistral", "ministral3", "ministral", "mistral3", "xverse", "internlm", "internlm2", "internlm3",
    "baichuan", "aquila", "yi", "phi3", "phi3_v", "exaone", "seed_oss", "smollm3", "ernie4_5", "granite", "deepseek",
    "nemotron-nas", "mllama", "mllama_text_model", "multi_modality",
)
# fmt: on
"""Types whose layers hold what Llama's do: two norms, gated MLP, no biases but those that the config states."""
_GPT = Traits(
    gated=False, qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True, tied=True, positions=0, ffn_factor=4
)
_QWEN2 = Traits(qkv_bias=True, o_bias=False)
_QWEN3 = Traits(qk_norm="head")
_QWEN3_NEXT = Traits(qk_norm="head", attention_gate=True, shared_gate=True, draft_layers=1, draft_copies=False)
_QWEN3_5 = Traits(qk_norm="head", attention_gate=True, shared_gate=True, draft_copies=False)
_GEMMA3 = Traits(norms=4, qk_norm="head", tied=True)
_OLMO2 = Traits(qk_norm="width")
_DEEPSEEK = Traits()
_PHI = Traits(gated=False, qkv_bias=True, o_bias=True, mlp_bias=True, norms=1, norm_bias=True, head_bias=True)
_COHERE = Traits(norms=1, tied=True)

TRAITS: dict[str, Traits] = {
    **dict.fromkeys(_LLAMA, Traits()),
    "minicpm": Traits(tied=True, experts_use_ffn=True),
    "minicpm3": Traits(tied=True),
    "orion": Traits(norm_bias=True),
    "olmo": Traits(norms=0, final_norm=False),
    "qwen": Traits(qkv_bias=True, o_bias=False, ffn_halves=True),
    **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text", "mimo"), _QWEN2),
    "qwen2_moe": Traits(qkv_bias=True, o_bias=False, shared_gate=True),
    **dict.fromkeys(
        ("qwen3", "qwen3_moe", "qwen3_vl_text", "qwen3_vl_moe_text", "exaone4", "hunyuan_v1_dense"), _QWEN3
    ),
    "qwen3_next": _QWEN3_NEXT,
    **dict.fromkeys(("qwen3_5_text", "qwen3_5_moe_text", "qwen3_5", "qwen3_5_moe"), _QWEN3_5),
    "glm4": Traits(norms=4, qkv_bias=True, o_bias=False),
    "glm": Traits(qkv_bias=True, o_bias=False),
    "glm4_moe": Traits(qkv_bias=True, o_bias=False),
    "chatglm": Traits(qkv_bias=True, o_bias=False),
    "stablelm": Traits(norm_bias=True, o_bias=False),
    "gemma": Traits(tied=True),
    "gemma2": Traits(norms=4, tied=True),
    **dict.fromkeys(("gemma3_text", "gemma3"), _GEMMA3),
    "gemma4_text": Traits(norms=4, qk_norm="head", tied=True),
    "gemma3n_text": Traits(norms=4, qk_norm="head", tied=True),
    **dict.fromkeys(("olmo2", "olmo3"), _OLMO2),
    "olmoe": Traits(qk_norm="width", experts_use_ffn=True),
    **dict.fromkeys(("cohere", "cohere2"), _COHERE),
    "starcoder2": Traits(gated=False, qkv_bias=True, mlp_bias=True, norm_bias=True, tied=True),
    **dict.fromkeys(("gpt2", "gpt_bigcode"), _GPT),
    "bloom": msgspec.structs.replace(_GPT, positions=None, embedding_norm=True),
    "falcon": msgspec.structs.replace(_GPT, positions=None, o_bias=None),
    **dict.fromkeys(("mamba", "falcon_mamba"), Traits(norms=1, tied=True, mixer="mixer", layer="mamba1")),
    "gpt_neox": Traits(gated=False, qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True),
    "opt": Traits(gated=False, qkv_bias=True, o_bias=True, mlp_bias=True, norm_bias=True, tied=True, positions=2),
    **dict.fromkeys(("phi", "phi-msft"), msgspec.structs.replace(_PHI, ffn_factor=4)),
    "phimoe": Traits(qkv_bias=True, o_bias=True, norm_bias=True, experts_use_ffn=True),
    "nemotron": Traits(gated=False, norm_bias=True),
    "arcee": Traits(gated=False),
    "mixtral": Traits(experts_use_ffn=True),
    "dbrx": Traits(experts_use_ffn=True),
    "granitemoe": Traits(tied=True, experts_use_ffn=True),
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite"), _DEEPSEEK
    ),
    "minimax_m2": Traits(qk_norm="width", experts_use_ffn=True, mlp="block_sparse_moe"),
    "gpt_oss": Traits(qkv_bias=True, experts_use_ffn=True, expert_bias=True, sinks=True),
    "llama4_text": Traits(experts_use_ffn=True, mlp="feed_forward"),
    "mimo_v2_flash": Traits(draft_layers=0),
    "nemotron_h": Traits(gated=False, norms=1, mlp="mixer", mixer="mixer"),
    "lfm2": Traits(qk_norm="head", tied=True, mlp="feed_forward"),
    "lfm2_moe": Traits(qk_norm="head", tied=True, mlp="feed_forward"),
    "kimi_linear": Traits(draft_copies=False),
    **dict.fromkeys(("deepseek_v4", "deepseek_ref"), Traits(mlp="ffn", mixer="attn", draft_copies=False)),
    "minimax_m3": Traits(qk_norm="head", experts_use_ffn=True, mlp="block_sparse_moe"),
}
