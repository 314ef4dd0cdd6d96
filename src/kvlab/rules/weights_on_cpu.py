"""Layers, and their part of the cache, stay on the CPU.

Symptom: llama.cpp and Ollama: "offloaded 5/37 layers to GPU", and a CPU KV buffer beside a CUDA one.

Cause: weights, cache and compute buffer together are more than the free memory of the GPU, so the rest runs on the
CPU, several times slower. Each layer's cache is where its weights are.

Do:
- shorten the context (llama.cpp -c, Ollama num_ctx) or use fewer slots (llama.cpp -np, Ollama OLLAMA_NUM_PARALLEL):
  the cache may be what does not fit
- store the cache in fewer bytes: llama.cpp -ctk q8_0 -ctv q8_0 -fa on, Ollama OLLAMA_KV_CACHE_TYPE=q8_0
- see whether another process holds the GPU (nvidia-smi, ollama ps)
- a smaller quantisation of the weights
- mixture-of-experts models: keep attention on the GPU and experts on the CPU (--n-cpu-moe)

Source: https://github.com/ollama/ollama/issues/10833 https://github.com/ollama/ollama/issues/9708
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign


def _advise(case: Case, advice: Advice) -> Advice | None:
    on, layers = case.last.number_of("on"), case.last.number_of("layers")
    if on is None or layers is None or on >= layers:
        return None
    if not case.count("gpu"):
        return None  # a build or a machine without GPU: nothing was meant to go there
    return advice.replaced(f"{layers - on:.0f} of {layers:.0f} layers did not fit on the GPU: {advice.why}")


RULE = Rule(
    cost="trade",
    signs=(
        Sign(
            pattern=re.compile(r"offloaded (?P<on>\d{1,5})/(?P<layers>\d{1,5}) layers to GPU"),
            engines=("llamacpp", "ollama"),
        ),
        Sign(
            name="gpu",
            pattern=re.compile(
                r"(?:CUDA|ROCm|Vulkan|SYCL|MTL|Metal)\d* (?:model|KV|compute) buffer size|ggml_cuda_init: found [1-9]"
            ),
            engines=("llamacpp", "ollama"),
        ),
    ),
    advise=_advise,
)
