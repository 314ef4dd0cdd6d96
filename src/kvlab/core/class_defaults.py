"""Values that published nested configs leave to their Transformers class.

A multimodal checkpoint writes only those keys of its text_config that differ from the class (gemma-3-4b-it states
neither heads nor head size; llava-1.5-7b states no layers). Source: configuration_gemma3.py, configuration_llama.py
and configuration_mistral.py of transformers 4.50 to 5.5, where these values have not changed.
"""

from __future__ import annotations

NESTED_DEFAULTS: dict[str, dict[str, object]] = {
    "gemma3_text": {
        "num_hidden_layers": 26,
        "hidden_size": 2304,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
    "llama": {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    },
    "mistral": {
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "max_position_embeddings": 131072,
        "sliding_window": 4096,
    },
}
EXPANDED_LATENT = ("minicpm3",)
"""Model types with latent attention that engines expand before caching; no key tells them from the others."""
ATTENTIONS_IN_LAYER = {
    # Attention modules of one layer, each with a cache of its own (modeling_longcat_flash.py).
    "longcat_flash": 2,
}
HEAD_DIMS = {
    # head_dim of the class, where published configs leave it out and hidden size / heads is another number
    # (gemma-3-12b: 256, not 3840 / 16).
    "gemma": 256,
    "gemma2": 256,
    "gemma3_text": 256,
    "gemma3": 256,
    "gemma3n_text": 256,
    "gemma4_text": 256,
}
DRAFT_LAYERS = {
    # Draft (MTP) layers of the class, where published configs do not state them.
    "qwen3_next": 1,
    "mimo_v2_flash": 1,
}
EVERY_NTH_FULL = {
    # Every n-th layer keeps all tokens, where the config lists no layers: n (configuration_gemma2.py, ...).
    "gemma2": 2,
    "gemma3_text": 6,
    "gemma3": 6,
    "cohere2": 4,
    "olmo3": 4,
    "exaone4": 4,
    "gpt_oss": 2,
}
