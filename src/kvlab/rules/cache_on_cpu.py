"""The cache lies in the machine's memory, the weights on the GPU.

Symptom: llama.cpp: "CPU KV buffer size" or "CUDA_Host KV buffer size" and none of a GPU, though a GPU has a model
buffer.

Cause: --no-kv-offload (-nkvo), or a front end's switch of that name, keeps all keys and values in the machine's
memory. Attention over them is then computed on the CPU: the longer the context, the slower each token.

Do:
- take --no-kv-offload out, if the cache fits beside the weights: kvlab plan tells
- make it fit: -ctk q8_0 -ctv q8_0, a shorter -c, fewer slots (-np)
- keep some layers on the CPU with their cache instead of the cache of all: a lower -ngl
- mixture-of-experts models: put experts on the CPU (--n-cpu-moe), and the cache back on the GPU

Source: https://github.com/ggml-org/llama.cpp/issues/12663 https://github.com/ggml-org/llama.cpp/issues/10560
"""

from __future__ import annotations

import re

from kvlab.core.rule import Advice, Case, Rule, Sign

_GPU = r"(?:CUDA|ROCm|Vulkan|SYCL|MTL|Metal)\d+"
_SOME = r"size =\s+[1-9][\d.]* MiB"
_WRITERS = ("llamacpp", "ollama")


def _advise(case: Case, advice: Advice) -> Advice | None:
    weights, cache = case.tallies.get("gpu_weights"), case.tallies.get("gpu_cache")
    if weights is None or case.last.number < weights.last.number:
        return None  # nothing of this start lies on a GPU
    if cache is not None and cache.last.number > weights.last.number:
        return None  # a part of the layers is meant to be there, with its cache
    return advice.replaced(f"{case.last.groups.get('size', 'all')} MiB of it lie there: {advice.why}")


RULE = Rule(
    cost="setting",
    signs=(
        Sign(
            pattern=re.compile(r"(?:CPU|CUDA_Host|ROCm_Host|Vulkan_Host) KV buffer size =\s+(?P<size>[1-9][\d.]*) MiB"),
            engines=_WRITERS,
        ),
        Sign(name="gpu_cache", pattern=re.compile(rf"{_GPU} KV buffer {_SOME}"), engines=_WRITERS),
        Sign(name="gpu_weights", pattern=re.compile(rf"{_GPU} (?:model )?buffer {_SOME}"), engines=_WRITERS),
    ),
    advise=_advise,
)
