"""Keys of a config that nothing read: those that set the shape of the cache, and those that might touch it."""

from __future__ import annotations

import re

from kvlab.core.config import Config
from kvlab.core.model import Doubt

_SHAPE = re.compile(
    # A key that changes what a layer keeps: planning without it would be a guess.
    r"(^|\.)(kv_lora_rank|linear_|gdn_|mamba_|ssm_|conv_kernel|conv_L_cache|compress_|index_|sparse_|attn_type_list"
    r"|layer_types|layers_block_type|block_types|_block_types|hybrid_|cross_attention_layers|num_kv_shared|cla_"
    r"|attention_chunk_size|is_encoder_decoder|block_configs|sliding_window|swa_|global_head_dim|num_global_key"
    r"|lru_width|wkv|time_mix|rwkv|attention_hidden_size|linear_attn|kda_|attention_other_setting|attention_types"
    r"|layer_group_size|attn_layer_|attention_layer|full_attention_interval|use_mla$|num_memory|kv_reuse|kv_share"
    r"|ssm\.|shortconv|kda\.|attention\.indexer|attention\.shared_kv|attention\.recurrent|share_kv|recurrent|expand_v|yoco|d_kv|num_decoder_layers|decoder_layers)"
)
_TOUCHES = re.compile(
    r"kv|cache|window|attention_type|attn_type|attention_pattern|num_.*head|head_dim|head_size|heads|mla|lora_rank"
    r"|state|conv|ssm|sliding|chunk|share|cross|index|compress|mamba|recurrent|sparse_att|local_att"
    r"|global_att|hybrid|memory|sink|num_global|num_local_layers|interval|kpool",
    re.IGNORECASE,
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
    "num_attention_heads_per_layer": "queries are not cached",
}
_SKIPPED = re.compile(
    # Nested configs of other towers, of weights and of positions: nothing in them is a language model's cache.
    r"vision|visual|audio|image|video|talker|code2wav|token2wav|quantization_config|rope|id2label|label2id|auto_map"
    r"|task_specific|aligner|projector|generation|transformers\.js|codec|speech|img_|embd_layer|ffn_config"
)


_DRAFT = re.compile(r"mtp|nextn|draft", re.IGNORECASE)


def structural(config: Config) -> list[str]:
    """Unread keys that set the shape of the cache, sorted. A false, zero or empty value switches the shape off."""
    return sorted(key for key, value in config.unread() if value and _SHAPE.search(key) and not _SKIPPED.search(key))


def doubts(config: Config) -> tuple[Doubt, ...]:
    """Unread keys whose name says that they might touch the cache.

    Draft layers (mtp, nextn) are not among them: the trunk's cache does not depend on them.
    """
    found = []
    for key, value in config.unread():
        name = key.rsplit(".", 1)[-1]
        if not value or name in _HARMLESS or _DRAFT.search(name) or _SKIPPED.search(key) or not _TOUCHES.search(name):
            continue
        found.append(Doubt(key, f"{_short(value)}: looks as if it changed the cache, and no rule reads it"))
    return tuple(found)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
