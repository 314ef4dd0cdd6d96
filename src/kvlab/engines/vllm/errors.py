"""Lines of vLLM that mean the server will not serve."""

from __future__ import annotations

import re

from kvlab.core.engine import Failures
from kvlab.core.observation import Failure
from kvlab.engines._hub import MODEL_GATED, model_not_found, remote_code

FAILURES = Failures(
    (
        Failure(
            code="context_larger_than_pool",
            title="One request of the full context does not fit in the cache",
            pattern=re.compile(
                r"To serve at least one request with the models?'s max seq len"
                r"|max seq len \(\d+\) is larger than the maximum number of tokens that can be stored in KV cache"
            ),
            why="vLLM starts only if a single request of --max-model-len tokens fits in the pool that is left after"
            " weights, activations and CUDA graphs",
            do=(
                "lower --context to the estimated maximum model length that the line states",
                "store the cache in fewer bytes: --kv-dtype fp8",
                "raise --util, or split the model over more GPUs with --tp",
            ),
        ),
        Failure(
            code="no_memory_for_blocks",
            title="No memory is left for the cache",
            pattern=re.compile(r"No available memory for the cache blocks|Cannot auto-fit max_model_len"),
            why="weights, activations of the profiling run and CUDA graphs already take the share that --util allows",
            do=(
                "raise --util",
                "lower --max-num-batched-tokens or --max-num-seqs: both size the profiling run",
                "use smaller weights or more GPUs (--tp)",
            ),
        ),
        Failure(
            code="mamba_blocks",
            title="Fewer state blocks than requests",
            pattern=re.compile(r"max_num_seqs \(\d+\) exceeds available Mamba cache blocks \(\d+\)"),
            why="a hybrid model needs one recurrent-state block per running request, and the default --max-num-seqs is"
            " above what the pool holds",
            do=("give --max-num-seqs at most the number of blocks that the line states", "raise --util"),
        ),
        Failure(
            code="free_memory_below_util",
            title="Less memory is free than vLLM is told to take",
            pattern=re.compile(
                r"(?:Free|Available) memory on (?:device|node) .{0,40}\([\d.]+/[\d.]+ GiB\) on startup is less than"
            ),
            why="another process holds memory of the device, or --util leaves the system too little",
            do=("stop the other process (nvidia-smi names it)", "lower --util"),
        ),
        Failure(
            code="out_of_memory",
            title="Memory ran out",
            pattern=re.compile(r"torch\.(?:cuda\.)?OutOfMemoryError|CUDA out of memory|HIP out of memory"),
            why="weights, activations or CUDA graphs took more than was free, often because --util is close to 1",
            do=(
                "lower --util so that the cache leaves room",
                "lower --max-num-seqs and --max-num-batched-tokens",
                "use more GPUs (--tp) or smaller weights",
            ),
        ),
        Failure(
            code="port_in_use",
            title="The port is taken",
            pattern=re.compile(r"\[Errno 98\] (?:error while attempting to bind|Address already in use)"),
            why="another process listens on this address",
            do=("choose another --port", "stop the process that holds it"),
        ),
        Failure(
            code="cache_dtype_refused",
            title="The cache dtype is not one of this release",
            pattern=re.compile(r"argument --kv-cache-dtype: invalid choice|Unknown kv cache dtype"),
            why="each release of vLLM has its own list, which the line states",
            do=("name one of the listed dtypes with --kv-dtype",),
        ),
        Failure(
            code="fp8_needs_avx512",
            title="An fp8 cache needs AVX-512 or AMX on a CPU",
            pattern=re.compile(r"FP8 KV cache on CPU requires x86 with AVX-512 or AMX"),
            why="the CPU attention kernels convert fp8 with instructions that this processor lacks",
            do=("use --kv-dtype auto on this machine",),
        ),
        Failure(
            code="no_attention_backend",
            title="No attention kernel takes this combination",
            pattern=re.compile(
                r"No valid attention backend found|(?:FlashAttention|Flash Attention) does not support fp8"
                r"|FP8 KV cache is not supported by the"
            ),
            why="head size, cache dtype, block size and GPU generation together rule out every backend; the line lists"
            " the reason of each",
            do=("use --kv-dtype auto", "drop --block-size", "choose a backend with --engine-arg attention-backend=..."),
        ),
        Failure(
            code="context_above_model",
            title="The context is longer than the model's",
            pattern=re.compile(r"max_model_len \(\d+\) is greater than the derived max_model_len"),
            why="positions beyond the trained length are not defined for this model",
            do=("lower --context", "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 lifts the check, at the price of quality"),
        ),
        Failure(
            code="heads_do_not_divide",
            title="The attention heads do not divide over the GPUs",
            pattern=re.compile(r"Total number of attention heads \(\d+\) must be divisible by tensor parallel size"),
            why="tensor parallelism gives each GPU the same number of heads",
            do=("choose a --tp that divides the number of heads",),
        ),
        MODEL_GATED,
        model_not_found(r"Invalid repository ID or local directory specified"),
        remote_code("vLLM"),
        Failure(
            code="architecture_unknown",
            title="This release of vLLM does not know the model",
            pattern=re.compile(
                r"Model architectures \[.*?\] (?:are not supported|failed to be inspected)"
                r"|Model architecture \w+ was supported in vLLM until"
                r"|has model type `[^`]+` but Transformers does not recognize this architecture"
            ),
            why="the config names an architecture that is newer or older than this vLLM and its Transformers",
            do=("upgrade vLLM", "check model_type and architectures in config.json"),
        ),
        Failure(
            code="engine_died",
            title="The engine process ended during start-up",
            # The last line of a failed start; "EngineCore failed to start." comes before the cause.
            pattern=re.compile(r"Engine core initialization failed"),
            why="an error in the engine process ended the start; the lines above it name the cause",
            do=("look for the first ERROR above this line",),
        ),
    )
)
