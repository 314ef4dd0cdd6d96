"""Keys of a config that nothing read: those that set the shape of the cache, and those that might touch it."""

from __future__ import annotations

from kvlab.core.config import Config
from kvlab.core.errors import shortened
from kvlab.core.model import Doubt

_SHAPE = (
    # Beginnings of keys that change what a layer keeps: planning without them would be a guess.
    *("attention.indexer", "attention.recurrent", "attention.shared_kv", "attention.sliding_window"),
    *("attention_chunk_size", "attention_hidden_size", "attention_other_setting", "attention_types", "attn_layer_"),
    *("attn_type_list", "block_configs", "block_types", "cla_", "compress_", "conv_L_cache", "conv_kernel"),
    *("cross_attention_layers", "d_conv", "d_kv", "d_state", "decoder_layers", "expand_v", "full_attention_interval"),
    *("gdn_", "global_head_dim", "hybrid_", "index_", "indexer_types", "is_encoder_decoder", "kda", "kv_lora_rank"),
    *("kv_reuse", "kv_share", "layer_group_size", "layer_types", "layers_block_type", "linear_", "lru_width", "mamba_"),
    *("num_decoder_layers", "num_global_key", "num_kv_shared", "num_memory", "recurrent", "rwkv", "share_kv"),
    *("shortconv", "sliding_window", "sparse_", "ssm", "state_size", "swa_", "time_mix", "wkv", "yoco", "_block_types"),
)
_TOUCHES = (
    # Parts of keys that might touch the cache.
    *(
        "kv",
        "cache",
        "window",
        "attention_type",
        "attn_type",
        "heads",
        "head_dim",
        "head_size",
        "mla",
        "lora_rank",
        "state",
    ),
    *("conv", "ssm", "sliding", "chunk", "share", "cross", "index", "compress", "mamba", "recurrent", "sparse_att"),
    *("local_att", "global_att", "hybrid", "memory", "sink", "num_global", "num_local_layers", "interval", "kpool"),
)
_HARMLESS = {
    # Key -> why it cannot change what is cached.
    "use_cache": "whether Transformers' generate() keeps a cache at all; engines always do",
    "cache_implementation": "the cache class of Transformers' generate()",
    "output_hidden_states": "what a forward pass returns",
    "cross_attention_hidden_size": "of encoder-decoder wrappers; cross_attention_layers says whether there are any",
    "chunk_size_feed_forward": "splits the feed-forward pass in time",
    "chunk_size": "of the state-space scan; its state does not depend on it",
    "mamba_chunk_size": "of the state-space scan; its state does not depend on it",
    "prefill_chunk_size": "of a compiled runtime (MLC)",
    "context_window_size": "of a compiled runtime (MLC)",
    "num_attention_heads": "queries are not cached; used only where the KV heads or the head size are not stated",
    "n_head": "queries are not cached; used only where the KV heads or the head size are not stated",
    "num_heads": "queries are not cached; used only where the KV heads or the head size are not stated",
    "add_qkv_bias": "a bias",
    "use_qkv_bias": "a bias",
    "qkv_bias": "a bias",
    "add_swa_attention_sink_bias": "sinks are logits, not cached tokens",
    "add_full_attention_sink_bias": "sinks are logits, not cached tokens",
    "num_key_value_groups": "attention heads / KV heads, both stated",
    "n_shared_experts": "shared experts of a mixture, not shared caches",
    "num_shared_experts": "shared experts of a mixture, not shared caches",
    "num_shared_expert": "shared experts of a mixture, not shared caches",
    "shared_expert_intermediate_size": "width of shared experts",
    "moe_shared_expert_intermediate_size": "width of shared experts",
    "moe_shared_expert_overlap": "when shared experts run",
    "shared_intermediate_size": "width of shared experts",
    "shared_moe_mode": "how shared experts are weighted",
    "share_expert_dim": "width of shared experts",
    "q_lora_rank": "compresses queries, which are not cached",
    "o_lora_rank": "compresses the attention output, which is not cached",
    "qk_nope_head_dim": "width of the uncached half of latent attention",
    "qk_head_dim": "width of queries",
    "rotary_emb_base": "rotary base",
    "add_cross_attention": "of encoder-decoder wrappers",
    "tie_encoder_decoder": "shares weights",
    "share_embeddings": "shares weights",
    "image_token_index": "a token id",
    "video_token_index": "a token id",
    "audio_token_index": "a token id",
    "boi_token_index": "a token id",
    "eoi_token_index": "a token id",
    "eoa_token_index": "a token id",
    "ignore_index": "a label of the training loss",
    "pruned_heads": "removed from weights before publication",
    "residual_in_fp32": "dtype of activations",
    "output_attentions": "what a forward pass returns",
    "projection_head": "of training",
    "layer_norm_cross": "a norm",
    "for_llm_compressor": "a mark of the tool that quantised the weights",
    "conv_bias": "a bias",
    "hc_sinkhorn_iters": "mixes residual streams (hyper-connections)",
    "num_attention_heads_per_layer": "queries are not cached",
}
_SKIPPED = (
    # Other towers, weights and positions: nothing in these keys is a language model's cache.
    *("vision", "visual", "audio", "image", "video", "talker", "code2wav", "token2wav", "quantization_config", "rope"),
    *("id2label", "label2id", "auto_map", "task_specific", "aligner", "projector", "generation", "transformers.js"),
    *("codec", "speech", "img_", "embd_layer", "ffn_config"),
)
_DRAFT = ("mtp", "nextn", "draft")
_MOST = 40
"""Doubts that are told one by one."""


def structural(config: Config) -> list[str]:
    """Unread keys that set the shape of the cache, sorted. A false, zero or empty value switches the shape off."""
    return sorted(key for key, value in config.unread() if value and _sets_shape(key) and not _has(key, _SKIPPED))


def doubts(config: Config) -> tuple[Doubt, ...]:
    """Unread keys whose name says that they might touch the cache.

    Draft layers (mtp, nextn) are not among them: the trunk's cache does not depend on them.
    """
    found = []
    for key, value in config.unread():
        name = key.rsplit(".", 1)[-1]
        if not value or name in _HARMLESS or _has(name.lower(), _DRAFT) or _has(key, _SKIPPED):
            continue
        if _has(name.lower(), _TOUCHES):
            text = f"{shortened(repr(value), 40)}: looks as if it changed the cache, and no rule reads it"
            found.append(Doubt(shortened(key, 100), text))
    if len(found) > _MOST:
        rest = Doubt("config", f"{len(found) - _MOST} more keys look as if they changed it too")
        return (*found[:_MOST], rest)
    return tuple(found)


def _sets_shape(key: str) -> bool:
    """Whether the key, or the part of it after a dot, begins as a key does that sets the shape."""
    return key.startswith(_SHAPE) or any(part.startswith(_SHAPE) for part in key.split(".")[1:])


def _has(key: str, words: tuple[str, ...]) -> bool:
    return any(word in key for word in words)
