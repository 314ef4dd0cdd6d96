"""Metadata of GGUF files, one or more for each way in which llama.cpp keeps a cache.

What a cache depends on (layers, heads, head sizes, windows, state sizes, context, vocabulary) is that of the published
model; widths that none depends on (hidden, feed-forward, experts) are small, so that a server starts in a second.
"""

from __future__ import annotations

from typing import NamedTuple

Keys = dict[str, object]
HIDDEN, WIDTH = 64, 32


class Shape(NamedTuple):
    """A model's name, its architecture as GGUF spells it, and the metadata of that architecture.

    `more` are tensors that the loader does without and the graph does not, each with the one that it comes beside.
    """

    name: str
    arch: str
    keys: Keys
    more: dict[str, str] = {}  # noqa: RUF012


def attention(layers: int, heads: object, kv_heads: object, size: int, **more: object) -> Keys:
    """Keys that every attention model has; `__` in a name stands for the dot of the metadata's own spelling."""
    keys: Keys = {
        "block_count": layers,
        "context_length": 131072,
        "embedding_length": HIDDEN,
        "feed_forward_length": WIDTH,
        "vocab_size": 32000,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": size,
        "attention.value_length": size,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.dimension_count": size,
    }
    return keys | spelled(more)


def spelled(more: dict[str, object]) -> Keys:
    """Keyword names as metadata keys."""
    return {key.replace("__", "."): value for key, value in more.items()}


def experts(**more: object) -> Keys:
    """A small mixture of experts."""
    return {"expert_count": 4, "expert_used_count": 2, "expert_feed_forward_length": WIDTH, "expert_gating_func": 2} | (
        {"expert_shared_count": 1} | spelled(more)
    )


def mamba(inner: int, state: int, groups: int, heads: int, kernel: int = 4) -> Keys:
    """Sizes of a Mamba or delta-rule state."""
    keys: Keys = {"ssm.conv_kernel": kernel, "ssm.inner_size": inner, "ssm.state_size": state}
    return keys | {"ssm.time_step_rank": heads} | ({"ssm.group_count": groups} if groups else {})


def latent(layers: int, heads: int, *, nope: int, value: int, kv_heads: object = 1, **more: object) -> Keys:
    """Latent attention of rank 512 with 64 rotary values, as DeepSeek's converters write it; only KDA keeps heads."""
    own: Keys = {
        "attention.key_length": 576,
        "attention.value_length": 512,
        "attention.key_length_mla": nope + 64,
        "attention.value_length_mla": value,
        "attention.kv_lora_rank": 512,
        "rope.dimension_count": 64,
    }
    return attention(layers, heads, kv_heads, 576) | own | spelled(more)


def every(count: int, period: int, usual: object, last: object) -> list[object]:
    """`count` entries; the last of every `period` is another."""
    return [last if (layer + 1) % period == 0 else usual for layer in range(count)]


def at(count: int, places: list[int], there: object, elsewhere: object) -> list[object]:
    """`count` entries, another one at some places."""
    return [there if layer in places else elsewhere for layer in range(count)]


INDEXER: Keys = {
    "attention.indexer.head_count": 4,
    "attention.indexer.key_length": 128,
    "attention.indexer.top_k": 2048,
}
BIAS = {"ssm_conv1d.bias": "ssm_conv1d.weight"}
DELTA = {"attn_qkv.weight": "ssm_conv1d.weight", "attn_gate.weight": "ssm_conv1d.weight"}
FUSED = {"attn_qkv.weight": "attn_norm.weight"}
INDEXER_TENSORS = ("k_norm.weight", "k_norm.bias", "proj.weight", "attn_k.weight", "attn_q_b.weight")
NAS = [6, 7, 11, *range(42, 52), *range(53, 71)]
MIMO_FULL = [0, *range(5, 48, 6)]
NEMOTRON = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
LFM2 = [2, 5, 8, 10, 12, 14]
JAMBA = [4, 12, 20, 28]

DENSE = (
    Shape("llama-3.1-8b", "llama", attention(32, 32, 8, 128, vocab_size=128256)),
    Shape("qwen3-8b", "qwen3", attention(36, 32, 8, 128, context_length=40960, vocab_size=151936)),
    Shape("phi-3-narrow", "phi3", attention(32, 8, 8, 64, embedding_length=512, attention__sliding_window=2048), FUSED),
    Shape(
        "llama-3.3-nemotron-49b",
        "deci",
        attention(80, at(80, NAS, 0, 64), at(80, NAS, 0, 8), 128),
    ),
    Shape("nanbeige-narrow", "nanbeige", attention(16, 8, 2, 64, num_loops=2, embedding_length=512)),
    Shape("minimax-m2.7", "minimax-m2", attention(62, 48, 8, 128) | experts()),
)
WINDOWED = (
    Shape("gemma-2-9b", "gemma2", attention(42, 16, 8, 256, context_length=8192, vocab_size=256000)),
    Shape("gemma-3-27b", "gemma3", attention(62, 32, 16, 128, attention__sliding_window=1024, vocab_size=262208)),
    Shape(
        "gemma-3n-e4b",
        "gemma3n",
        attention(35, 8, 2, 256, context_length=32768, attention__sliding_window=512)
        | {"altup.num_inputs": 4, "altup.active_idx": 0, "embedding_length_per_layer_input": 64}
        | {"attention.sliding_window_pattern": every(35, 5, True, False), "attention.shared_kv_layers": 15}
        | {"activation_sparsity_scale": [0.0] * 35},
    ),
    Shape(
        "gemma-4-26b-a4b",
        "gemma4",
        attention(30, 16, every(30, 6, 8, 2), 512, attention__sliding_window=1024, context_length=262144)
        | {"attention.sliding_window_pattern": every(30, 6, True, False), "attention.shared_kv_layers": 0}
        | {"attention.key_length_swa": 256, "attention.value_length_swa": 256, "rope.dimension_count_swa": 256}
        | {"embedding_length_per_layer_input": 0},
    ),
    Shape(
        "gemma-4-e2b",
        "gemma4",
        attention(35, 8, 1, 512, attention__sliding_window=512)
        | {"attention.sliding_window_pattern": every(35, 5, True, False), "attention.shared_kv_layers": 20}
        | {"attention.key_length_swa": 256, "attention.value_length_swa": 256, "rope.dimension_count_swa": 256}
        | {"embedding_length_per_layer_input": 64},
    ),
    Shape("gpt-oss-20b", "gpt-oss", attention(24, 64, 8, 64, attention__sliding_window=128) | experts()),
    Shape(
        "llama-4-scout",
        "llama4",
        attention(48, 40, 8, 128, context_length=10485760) | experts(interleave_moe_layer_step=1),
    ),
    Shape(
        "smallthinker-21b-a3b",
        "smallthinker",
        attention(52, 28, 4, 128, context_length=16384, attention__sliding_window=4096) | experts(),
    ),
    Shape(
        "step-3.7-flash",
        "step35",
        attention(48, 64, 8, 128, context_length=65536, attention__sliding_window=512, nextn_predict_layers=3)
        | {"attention.sliding_window_pattern": [bool(layer % 4) for layer in range(48)], "rope.dimension_count": 128}
        | experts(expert_shared_feed_forward_length=WIDTH, leading_dense_block_count=3),
    ),
    Shape(
        "mimo-v2-flash",
        "mimo2",
        attention(48, 64, at(48, MIMO_FULL, 4, 8), 192, attention__sliding_window=128)
        | {"attention.sliding_window_pattern": at(48, MIMO_FULL, False, True)}
        | {"attention.value_length": 128, "rope.dimension_count": 64}
        | experts(),
    ),
)
LATENT = (
    Shape(
        "deepseek-v2-lite", "deepseek2", latent(27, 16, nope=128, value=128, leading_dense_block_count=1) | experts()
    ),
    Shape(
        "deepseek-v3.2",
        "deepseek32",
        latent(62, 16, nope=128, value=128, nextn_predict_layers=1, leading_dense_block_count=3)
        | {"attention.q_lora_rank": 64}
        | INDEXER
        | experts(),
    ),
    Shape(
        "glm-5.2",
        "glm-dsa",
        latent(79, 16, nope=192, value=256, nextn_predict_layers=1, leading_dense_block_count=3)
        | {"attention.q_lora_rank": 64, "context_length": 1048576}
        | INDEXER
        | experts(),
        {f"indexer.{name}": "attn_kv_a_norm.weight" for name in INDEXER_TENSORS},
    ),
    Shape(
        "kimi-linear-48b-a3b",
        "kimi-linear",
        latent(
            27, 32, nope=128, value=128, kv_heads=at(27, [3, 7, 11, 15, 19, 23, 26], 1, 0), leading_dense_block_count=1
        )
        | {"ssm.conv_kernel": 4, "kda.head_dim": 128}
        | experts(),
    ),
    Shape(
        "kimi-k3-narrow",
        "kimi-k3",
        latent(93, 16, nope=128, value=128, kv_heads=every(93, 4, 0, 1), leading_dense_block_count=1)
        | {"ssm.conv_kernel": 4, "kda.head_dim": 128, "attention.q_lora_rank": 64, "attn_res.block_size": 12}
        | {"activation.situ_beta": 1.0, "activation.situ_linear_beta": 1.0}
        | experts(),
    ),
    Shape(
        "ling-2.6-narrow",
        "bailingmoe3",
        latent(25, 16, nope=128, value=128, kv_heads=[*every(24, 4, 0, 1), 1], leading_dense_block_count=1)
        | {"ssm.conv_kernel": 4, "kda.head_dim": 128, "kda.gate_lower_bound": -5.0, "nextn_predict_layers": 1}
        | {"attention.q_lora_rank": 64}
        | experts(),
    ),
    Shape(
        "minimax-m3",
        "minimax-m3",
        attention(60, 64, 4, 128, context_length=1048576, leading_dense_block_count=3)
        | {"attention.indexer.head_count": 4, "attention.indexer.key_length": 128, "attention.indexer.top_k": 16}
        | {"attention.indexer.block_size": 128, "attention.indexer.local_blocks": 1}
        | experts(),
    ),
)
POOLED = (
    Shape(
        "deepseek-v4-flash",
        "deepseek4",
        attention(43, 16, 1, 512, context_length=1048576, attention__sliding_window=128, rope__dimension_count=64)
        | {"attention.compress_ratios": [0, 0, *([4, 128] * 20), 4], "attention.q_lora_rank": 64}
        | {"attention.indexer.head_count": 4, "attention.indexer.key_length": 128, "attention.indexer.top_k": 512}
        | {"attention.output_group_count": 8, "attention.output_lora_rank": 64, "hash_layer_count": 0}
        | {"attention.compress_rope_freq_base": 160000.0, "hyper_connection.count": 4, "hyper_connection.epsilon": 1e-6}
        | {"hyper_connection.sinkhorn_iterations": 20, "swiglu_clamp_exp": [10.0] * 43}
        | experts(expert_weights_scale=1.5, expert_weights_norm=True, expert_gating_func=4),
    ),
)
STATES = (
    Shape("mamba-130m", "mamba", attention(24, 0, 0, 0, embedding_length=768) | mamba(1536, 16, 0, 48)),
    Shape("mamba2-130m", "mamba2", attention(24, 0, 0, 0, embedding_length=768) | mamba(1536, 128, 1, 24)),
    Shape("falcon-h1-7b", "falcon-h1", attention(44, 12, 2, 128) | mamba(3072, 256, 1, 24), BIAS),
    Shape(
        "jamba-narrow",
        "jamba",
        attention(32, 4, at(32, JAMBA, 2, 0), 128, embedding_length=512) | mamba(1024, 16, 0, 32) | experts(),
    ),
    Shape(
        "granite-4.0-h-tiny",
        "granitehybrid",
        attention(40, 12, at(40, [5, 15, 25, 35], 4, 0), 128, embedding_length=1536)
        | mamba(3072, 128, 1, 48)
        | experts(),
        BIAS,
    ),
    Shape(
        "nemotron-3-nano-30b",
        "nemotron_h_moe",
        attention(52, 32, [2 if kind == "*" else 0 for kind in NEMOTRON], 128, context_length=262144)
        | mamba(4096, 128, 8, 64)
        | experts(expert_shared_feed_forward_length=WIDTH)
        | {
            "attention.layer_norm_epsilon": 1e-5,
            "feed_forward_length": [WIDTH if kind == "E" else 0 for kind in NEMOTRON],
        },
        BIAS,
    ),
    Shape(
        "qwen3-next-80b-a3b",
        "qwen3next",
        attention(48, 16, 2, 256, context_length=262144, expert_shared_feed_forward_length=WIDTH)
        | mamba(4096, 128, 16, 32)
        | experts()
        | {"rope.dimension_count": 64},
        DELTA,
    ),
    Shape(
        "qwen3.5-35b-a3b",
        "qwen35moe",
        attention(41, 16, 2, 256, context_length=262144, nextn_predict_layers=1, full_attention_interval=4)
        | mamba(4096, 128, 16, 32)
        | experts(expert_shared_feed_forward_length=WIDTH)
        | {"rope.dimension_count": 64, "rope.dimension_sections": [11, 11, 10, 0]},
        DELTA,
    ),
    Shape(
        "lfm2.5-1.6b",
        "lfm2",
        attention(16, 32, at(16, LFM2, 8, 0), 64, embedding_length=2048, context_length=128000, shortconv__l_cache=3),
    ),
    Shape(
        "rwkv-7-1.5b",
        "rwkv7",
        attention(24, 0, 0, 0, embedding_length=2048, context_length=1048576)
        | {"wkv.head_size": 64, "attention.decay_lora_rank": 96, "attention.iclr_lora_rank": 96}
        | {"attention.value_residual_mix_lora_rank": 64, "attention.gate_lora_rank": 256}
        | {"attention.layer_norm_epsilon": 1e-5},
    ),
    Shape(
        "minimax-text-01",
        "minimax-01",
        attention(80, 64, 8, 128, context_length=1048576) | experts(residual_scale=1.0),
    ),
)
SHAPES = (*DENSE, *WINDOWED, *LATENT, *POOLED, *STATES)
