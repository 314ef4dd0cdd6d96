"""What engines reach of a GPU's rates, as public measurements show it: the ranges behind every expected speed."""

from __future__ import annotations

import msgspec


class Reached(msgspec.Struct, frozen=True):
    """A share of a rate (or seconds), from the least to the most that the sources show."""

    low: float
    high: float
    source: str


_GPT_FAST = "https://github.com/pytorch-labs/gpt-fast"
_LLAMACPP = "https://github.com/ggml-org/llama.cpp/pull/4766"

# gpt-fast, Llama-2-7B in bf16 on an A100-80GB: 1,397 of 2,039 GB/s. llama.cpp, 7B F16 on an RTX 4090: 61.03 tokens/s
# x 13.5 GB of 1,008 GB/s.
DECODE = Reached(0.60, 0.85, f"0.69 ({_GPT_FAST}, A100) and 0.82 ({_LLAMACPP}, RTX 4090) were measured")
"""Share of the memory bandwidth in decoding with 16-bit weights."""
# gpt-fast: int8 1,069 GB/s, int4 863. llama.cpp, 7B Q8_0: 98.13 tokens/s x 7.16 GB.
DECODE_QUANTISED = Reached(0.40, 0.85, f"0.42 and 0.52 ({_GPT_FAST}, A100), 0.70 ({_LLAMACPP}, RTX 4090) were measured")
"""The same with weights of 8 bits or less, which are unpacked on the way."""
FEW_BITS = 12
"""Bits of a parameter below which weights count as quantised."""

# Qwen3-14B-AWQ, 16,000 tokens in 3.35 s on an A100-80GB: 5.8e14 operations, of 312e12 a second.
PREFILL = Reached(0.30, 0.65, "0.55 (https://github.com/vllm-project/vllm/issues/20469, A100) was measured")
"""Share of the dense rate in prefill."""
# 7B F16, 512 tokens at 11,048 tokens/s: 1.5e14 of 165e12, accumulating in 16 bits at twice that rate. V100, Qwen2-3B
# Q4_0, 5,615 tokens/s: 3.5e13 of 125e12.
PREFILL_GGUF = Reached(
    0.25,
    1.10,
    f"0.90 ({_LLAMACPP}, RTX 4090) and 0.28 (https://github.com/ggml-org/llama.cpp/pull/12183, V100) were measured",
)
"""The same for GGUF files, whose kernels accumulate in 16 bits or multiply in 8."""

# 4 to 13 ms in vLLM 0.5, most of which later releases overlap with the GPU's work.
STEP = Reached(0.0, 0.003, "https://github.com/vllm-project/vllm/issues/6854")
"""Seconds of a step beside reading and computing: scheduling, sampling, launches."""
STEP_EXPERTS = Reached(0.0, 0.0066, "5 to 6.6 ms: https://github.com/vllm-project/vllm-xpu-kernels/issues/509")
"""What routing to experts adds to that."""
# gpt-fast, Llama-2-7B: what a step takes beyond a half (an eighth) of the time on one GPU is 1.2 ms (1.9 ms) for 64.
ALL_REDUCE = Reached(10e-6, 30e-6, f"19 and 29 microseconds on NVLink follow from {_GPT_FAST}")
"""Seconds of one all-reduce of a decode step; a layer has two."""
