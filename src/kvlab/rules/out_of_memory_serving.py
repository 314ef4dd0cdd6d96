"""Memory ran out under load.

Symptom: an out-of-memory error after the server had answered requests; SGLang: "Prefill out of memory. Try to lower
your batch size.".

Cause: a step was larger than the trial run at the start: a long prompt, many images, logprobs of a large vocabulary,
or another process that came later. The cache itself does not grow.

Do:
- bound a step: vLLM --max-num-batched-tokens and --max-num-seqs, SGLang --chunked-prefill-size and
  --max-running-requests
- leave more room beside the cache: lower the share by 0.02 to 0.05
- see whether another process came to the GPU (nvidia-smi)
- avoid fragments: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True

Source: https://github.com/sgl-project/sglang/issues/322
"""

from __future__ import annotations

from kvlab.core.rule import Rule
from kvlab.rules._memory import OUT_OF_MEMORY, with_sizes

RULE = Rule(
    cost="setting",
    failures=("out_of_memory",),
    signs=OUT_OF_MEMORY,
    stages=("serving",),
    advise=with_sizes,
)
