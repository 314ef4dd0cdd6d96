"""Lines of TensorRT-LLM that mean the server will not serve."""

from __future__ import annotations

import re

from kvlab.core.engine import Failures
from kvlab.core.observation import Failure

FAILURES = Failures(
    (
        Failure(
            code="context_larger_than_pool",
            title="One request of the full context does not fit in the cache",
            pattern=re.compile(
                r"maxTokensInPagedKvCache (?:\(\d+\) )?must be large enough to process at least 1 sequence"
                r"|Impossible to fit in any sequence in kvCache"
            ),
            why="free memory x free_gpu_memory_fraction, or max_tokens, holds fewer tokens than one request may have",
            do=(
                "lower --context",
                "raise --util: it is a share of what is free after the weights",
                "store the cache in fewer bytes: --kv-dtype fp8",
            ),
        ),
        Failure(
            code="cache_dtype_refused",
            title="The backend has no cache of this dtype",
            pattern=re.compile(r"Cannot support .{0,60}KV cache"),
            why="the PyTorch backend caches in the model's dtype, fp8 or nvfp4; int8 needs the TensorRT backend",
            do=("leave --kv-dtype at auto, or take fp8", "--engine-arg backend=tensorrt with an engine built for int8"),
        ),
        Failure(
            code="port_in_use",
            title="The port is taken",
            pattern=re.compile(r"Failed to bind socket to \S+:\d+"),
            why="another process listens on this address",
            do=("choose another --port", "stop the process that holds it"),
        ),
        Failure(
            code="architecture_unknown",
            title="TensorRT-LLM does not know the model's architecture",
            pattern=re.compile(r"Unknown architecture for AutoModelForCausalLM: \S+"),
            why="this release has no model class for the architecture that the config names",
            do=("take a newer TensorRT-LLM", "serve it with another engine: --engine vllm"),
        ),
        Failure(
            code="out_of_memory",
            title="Memory ran out",
            pattern=re.compile(
                r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory(?!.*\bretrying\b)|cudaErrorMemoryAllocation"
            ),
            why="weights, workspaces or the cache took more than was free; the cache claims --util of what the dry run"
            " left, and longer prompts need more than the dry run saw",
            do=(
                "lower --util: it leaves more of the free memory to activations",
                "lower --max-num-batched-tokens or --max-num-seqs",
                "use smaller weights or more GPUs (--tp)",
            ),
        ),
        Failure(
            code="engine_died",
            title="The executor stopped",
            pattern=re.compile(r"Executor worker returned error"),
            why="the lines above it in the log say which rank failed and why",
            do=("read the log from its first ERROR line",),
        ),
    )
)
