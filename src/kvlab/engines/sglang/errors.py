"""Lines of SGLang that mean the server will not serve.

Two of them give opposite advice about one flag: a pool that is too small wants --util raised, CUDA graphs or
activations that find no memory want it lowered.
"""

from __future__ import annotations

import re

from kvlab.core.engine import Failures
from kvlab.core.observation import Failure
from kvlab.engines._hub import MODEL_GATED, model_not_found, remote_code

FAILURES = Failures(
    (
        Failure(
            code="no_memory_for_blocks",
            title="No memory is left for the cache",
            pattern=re.compile(
                r"Not enough memory\. Please try to increase --mem-fraction-static"
                r"|Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static"
            ),
            why="the weights already take the share of memory that --util (--mem-fraction-static) allows for weights"
            " and cache together",
            do=(
                "raise --util above the value that the line states",
                "use more GPUs (--tp) or smaller weights",
                "stop other processes on this GPU: the share is of what is free before loading",
            ),
        ),
        Failure(
            code="graph_capture_failed",
            title="CUDA graphs found no memory",
            pattern=re.compile(r"Capture cuda graph failed"),
            why="activations and CUDA graphs live in the share that --util (--mem-fraction-static) leaves free, and it"
            " leaves too little",
            do=(
                "lower --util",
                "capture smaller batches: --engine-arg cuda-graph-max-bs=16 (cuda-graph-max-bs-decode since 0.5.14)",
                "lower --max-num-batched-tokens",
            ),
        ),
        Failure(
            code="mamba_blocks",
            title="Recurrent state does not fit",
            pattern=re.compile(
                r"Not enough GPU memory for hybrid \(mamba/linear-attention\) state cache"
                r"|Hybrid \(mamba/linear-attention\) state cache is too small to serve"
            ),
            why="a hybrid model keeps several states for each running request, and their part of the pool holds none",
            do=(
                "raise --util",
                "halve the states: --engine-arg mamba-ssm-dtype=bfloat16 (check the answers: kvlab quality)",
                "give states a larger part: --engine-arg mamba-full-memory-ratio=2",
            ),
        ),
        Failure(
            code="context_larger_than_pool",
            title="The window pool does not hold one request",
            pattern=re.compile(r"SWA pool \(\d+ tokens\) cannot hold even one request|SWA pool cap \(\d+ tokens"),
            why="windowed layers have a pool of their own, --swa-full-tokens-ratio of the full one, and it is smaller"
            " than one window and a page",
            do=("raise --util", "raise --engine-arg swa-full-tokens-ratio=1", "lower --max-num-seqs"),
        ),
        Failure(
            code="cache_dtype_refused",
            title="The cache dtype is not one of this release",
            pattern=re.compile(
                r"argument --kv-cache-dtype: invalid choice|Unsupported kv_cache_dtype: \S+"
                r"|--kv-cache-dtype=\S+ requires torch\.float4_e2m1fn_x2 support"
            ),
            why="each release of SGLang has its own list, and fp4 needs PyTorch 2.8 with CUDA 12.8",
            do=("name one of the listed dtypes with --kv-dtype", "use --kv-dtype fp8_e4m3"),
        ),
        Failure(
            code="context_above_model",
            title="The context is longer than the model's",
            pattern=re.compile(r"context_length \(\d+\) is greater than the derived context_length \(\d+\).*"),
            why="positions beyond the trained length are not defined for this model",
            do=(
                "lower --context",
                "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN=1 lifts the check, at the price of quality",
            ),
        ),
        Failure(
            code="host_tier_too_large",
            title="The host has too little memory for the hierarchical cache",
            pattern=re.compile(r"Not enough host memory available\. Requesting [\d.]+ GB"),
            why="HiCache pins a pool on the host for each rank, by default a multiple of the pool on the GPU",
            do=("lower --engine-arg hicache-ratio or hicache-size", "leave --engine-arg enable-hierarchical-cache out"),
        ),
        Failure(
            code="unbalanced_memory",
            title="GPUs differ in free memory",
            pattern=re.compile(r"The memory capacity is unbalanced\. Some GPUs may be occupied"),
            why="the pool is sized by the GPU with the least free memory, and another process holds some of one",
            do=("stop the other process (nvidia-smi names it)", "choose other GPUs with CUDA_VISIBLE_DEVICES"),
        ),
        Failure(
            code="out_of_memory",
            title="Memory ran out",
            pattern=re.compile(
                r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|HIP out of memory"
                r"|(?:Prefill|Decode) out of memory\. Try to lower your batch size"
            ),
            why="weights, activations or CUDA graphs took more than --util (--mem-fraction-static) left free",
            do=(
                "lower --util so that the cache leaves room",
                "lower --max-num-batched-tokens (--chunked-prefill-size)",
                "use more GPUs (--tp) or smaller weights",
            ),
        ),
        Failure(
            code="port_in_use",
            title="The port is taken",
            pattern=re.compile(
                r"\[Errno 98\] (?:error while attempting to bind|Address already in use)|Port is already in use\."
            ),
            why="another process listens on this address",
            do=("choose another --port", "stop the process that holds it"),
        ),
        Failure(
            code="architecture_unknown",
            title="This release does not know the architecture",
            pattern=re.compile(r"Model architectures .{1,200} are not supported for now"),
            why="the model is newer than this release of SGLang, or served by another engine only",
            do=("use a newer SGLang", "plan another engine with --engine"),
        ),
        Failure(
            code="heads_do_not_divide",
            title="The attention heads do not divide over the GPUs",
            pattern=re.compile(
                r"assert self\.total_num_(?:kv_)?heads % \w+ == 0|AssertionError: \d+ is not divisible by \d+"
            ),
            why="tensor parallelism gives each GPU the same number of heads",
            do=("choose a --tp that divides the number of heads", "use --pp for the other GPUs"),
        ),
        MODEL_GATED,
        model_not_found(),
        remote_code("SGLang"),
        Failure(
            code="engine_died",
            title="A process of the server died",
            pattern=re.compile(
                r"Received sigquit from a child process|Scheduler or DataParallelController \d+ terminated"
            ),
            why="the lines above it in the log say what stopped; exit code -9 means that the host ran out of memory",
            do=("read the lines above it in the log", "look at the host's memory and at other processes on the GPU"),
        ),
    )
)
