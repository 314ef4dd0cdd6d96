"""Lines of llama.cpp that mean the server will not serve."""

from __future__ import annotations

import re

from kvlab.core.engine import Failures
from kvlab.core.observation import Failure

FAILURES = Failures(
    (
        Failure(
            code="port_in_use",
            title="The port is taken",
            pattern=re.compile(r"couldn't bind HTTP server socket"),
            why="another process listens on this address",
            do=("choose another --port", "stop the process that holds it"),
        ),
        Failure(
            code="cache_dtype_refused",
            title="The cache type is not one of llama.cpp's",
            pattern=re.compile(r"Unsupported cache type: \S+|--cache-type-[kv].*invalid choice"),
            why="llama.cpp stores the cache in f32, f16, bf16, q8_0, q5_1, q5_0, q4_1, q4_0 or iq4_nl only",
            do=("name one of these with --kv-dtype",),
        ),
        Failure(
            code="quantised_values_need_flash_attention",
            title="A quantised value cache needs flash attention",
            pattern=re.compile(r"quantized V cache requires flash_attn|V cache quantization requires flash_attn"),
            why="flash attention was turned off, and the other kernels read values in f16 only",
            do=("leave --flash-attn at auto", "keep values in f16: --kv-dtype-v f16"),
        ),
        Failure(
            code="model_not_found",
            title="The model file cannot be opened",
            pattern=re.compile(r"failed to open GGUF file|gguf_init_from_file: failed to open"),
            why="there is no readable file at the path given",
            do=("check the path",),
        ),
        Failure(
            code="model_broken",
            title="The model file is damaged or incomplete",
            pattern=re.compile(
                r"(?:tensor '.*' data is not within the file bounds|invalid magic characters|"
                r"failed to read (?:magic|header|tensor info|key-value pairs)).*"
            ),
            why="the file ends early or is not a GGUF file: most often a download that was cut short",
            do=("download the file again and compare its size",),
        ),
        Failure(
            code="out_of_memory",
            title="Memory ran out while buffers were allocated",
            pattern=re.compile(
                r"failed to allocate buffer for kv cache|cudaMalloc failed: out of memory|failed to allocate compute"
                r"|ggml_aligned_malloc: insufficient memory"
            ),
            why="weights, cache and compute buffer together do not fit",
            do=("lower --context or --parallel", "choose a smaller cache dtype", "use a smaller quantisation"),
        ),
        Failure(
            code="architecture_unknown",
            title="This llama.cpp does not know the model's architecture",
            pattern=re.compile(r"unknown model architecture: '[^']+'"),
            why="the build is older than the model, or the file is no language model",
            do=("take a newer llama.cpp",),
        ),
        Failure(
            code="model_does_not_load",
            title="The model does not load",
            pattern=re.compile(r"exiting due to model loading error|failed to create context with model"),
            why="the lines above it in the log say which part was refused",
            do=("read the log", "check that this build of llama.cpp knows the architecture"),
        ),
    )
)
