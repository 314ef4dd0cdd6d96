"""What llama.cpp's loader fixes for each architecture and no GGUF file states.

Sources: the `load_arch_hparams` functions in src/models, `create_memory` in llama-model.cpp and llama-arch.cpp of
llama.cpp b11434.
"""

from __future__ import annotations

import msgspec

from kvlab.core.layout import RowKind

BUILD = "b11434"
"""The build that was read."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


class Windows(msgspec.Struct, frozen=True, kw_only=True):
    """How an architecture alternates windows and full attention."""

    period: int | None = None
    """One layer of every `period` is full; None: the file lists the layers."""
    full_first: bool = False
    """The first of every `period` is the full one, not the last."""
    default: int | None = None
    """Tokens of the window where the file states none."""
    fixed: int | None = None
    """Tokens of the window whatever the file states."""
    needed: bool = False
    """Whether the loader refuses a file without a window."""
    layers: int | None = None
    """The only number of layers with which the architecture slides at all."""
    kind: RowKind = "window"


WINDOWS = {
    "afmoe": Windows(period=4),
    "cohere2": Windows(period=4, needed=True),
    "cohere2moe": Windows(period=4, full_first=True, needed=True),
    "dots3note": Windows(needed=True),
    "exaone-moe": Windows(period=4, needed=True),
    "exaone4": Windows(period=4, default=4096, layers=64),
    "gemma2": Windows(period=2, default=4096),
    "gemma3": Windows(period=6),
    "gemma3n": Windows(period=5, needed=True),
    "gemma4": Windows(needed=True),
    "gpt-oss": Windows(period=2, needed=True),
    "granite_swa": Windows(needed=True),
    "laguna": Windows(period=4, full_first=True),
    "lfm2": Windows(period=0),
    "llama4": Windows(period=4, fixed=8192, default=8192, kind="chunked"),
    "maple": Windows(needed=True),
    "mellum": Windows(period=4),
    "mimo2": Windows(needed=True),
    "muse-glimmer": Windows(period=4, needed=True),
    "olmo2": Windows(period=4),
    "plamo3": Windows(period=8),
    "smallthinker": Windows(period=4, full_first=True, fixed=4096),
    "spark2_5": Windows(needed=True),
    "step35": Windows(needed=True),
}
"""Every other architecture keeps all tokens, even if its file states a window. A period of 0 slides in every layer."""

LATENT = _names("bailingmoe3 deepseek2 deepseek32 dots3note glm-dsa glm5-next hy_v4 kimi-k3 kimi-linear")
"""Keep one compressed key for all heads, and no value, where the file states `key_length_mla`."""
INDEXER = _names("deepseek32 dots3note glm-dsa glm5-next hy_v4 minimax-m3 qwen4exp")
"""Keep a key per token to choose the tokens that are attended to."""
SHARED = frozenset({"gemma3n", "gemma4"})
"""The last layers attend to the caches of earlier ones."""
GEMMA3N_OWNERS = 20
"""Layers of a Gemma 3n that own a cache, whatever its file states."""
RECURRENT = _names("arwkv7 mamba mamba2 rwkv6 rwkv6qwen2 rwkv7")
"""A state in every layer and no attention."""
BOTH = frozenset({"falcon-h1"})
"""Attention and a state in every layer."""
INTERVAL = {"minimax-01": 8, "qwen35": 4, "qwen35moe": 4, "qwen3next": 4, "qwen4exp": 4}
"""A state in all layers but the last of every so many, unless the file lists them or states another interval."""
NO_HEADS = _names(
    "bailingmoe3 glm5-next granitehybrid jamba kimi-k3 kimi-linear lfm2 lfm2moe nemotron_h nemotron_h_moe plamo2"
)
"""A state in the layers without KV heads."""
NO_CACHE = _names(
    "bert clef clip dream eurobert gemma-embedding jina-bert-v2 jina-bert-v3 llada llada-moe modern-bert"
    " neo-bert nomic-bert nomic-bert-moe rnd1 t5encoder wavtokenizer-dec"
)
POOLED = frozenset({"deepseek4"})
"""A window in every layer, and keys compressed over many tokens in those that `compress_ratios` names."""
NOT_PLANNED = {
    "dflash": "drafts for another model and shares its layers' states",
    "eagle3": "drafts for another model",
    "gemma4-assistant": "drafts for another model and attends to its cache",
    "pockettts": "generates speech in several models of one file",
    "qwen3tts": "generates speech in several models of one file",
    "t5": "is an encoder-decoder",
}
_PLAIN = _names(
    "apertus arcee arctic baichuan bailingmoe bailingmoe2 bitnet bloom chameleon chatglm codeshell cogvlm"
    " command-r dbrx deci deepseek deepseek2-ocr dots1 ernie4_5 ernie4_5-moe exaone falcon gemma glm4"
    " glm4moe gpt2 gptj gptneox granite granitemoe graniteswitch grok grovemoe hrm_text hunyuan-dense"
    " hunyuan-moe hunyuan_vl hy_v3 internlm2 jais jais2 llama llama-embed maincoder minicpm minicpm3"
    " minimax-m2 mistral3 mistral4 mpt nanbeige nemotron olmo olmoe openelm orion paddleocr pangu-embedded"
    " phi2 phi3 phimoe plamo plm qwen qwen2 qwen2moe qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe refact"
    " seed_oss smollm3 stablelm starcoder starcoder2 talkie xverse"
)
"""Full attention in every layer."""
KNOWN = (
    _PLAIN
    | set(WINDOWS)
    | LATENT
    | INDEXER
    | RECURRENT
    | BOTH
    | set(INTERVAL)
    | NO_HEADS
    | NO_CACHE
    | POOLED
    | set(NOT_PLANNED)
)
"""All that this build loads."""
