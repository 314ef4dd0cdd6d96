"""Lines of Ollama, and of the llama-server that it runs, that mean the model will not be served.

A first out-of-memory line of the child is not among them: Ollama retries with a smaller context.
"""

from __future__ import annotations

import re

from kvlab.core.engine import Failures
from kvlab.core.observation import Failure

FAILURES = Failures(
    (
        Failure(
            code="port_in_use",
            title="The port is taken",
            pattern=re.compile(r"listen tcp \S+:\d+: bind: address already in use"),
            why="another process listens on this address: often the Ollama service that the installer started",
            do=("choose another --port", "stop the service: systemctl stop ollama"),
        ),
        Failure(
            code="cache_dtype_refused",
            title="The cache type is not one of llama.cpp's",
            pattern=re.compile(r"Unsupported cache type: \S+"),
            why="Ollama passes OLLAMA_KV_CACHE_TYPE on as it is, and llama-server does not have this type",
            do=("name f16, q8_0 or q4_0 with --kv-dtype",),
        ),
        Failure(
            code="quantised_values_need_flash_attention",
            title="A quantised value cache needs flash attention",
            pattern=re.compile(r"quantized V cache requires flash_attn|V cache quantization requires flash_attn"),
            why="flash attention is off (OLLAMA_FLASH_ATTENTION=0, or the GPU has no kernels for it)",
            do=("leave OLLAMA_FLASH_ATTENTION out", "keep the cache in f16: --kv-dtype f16"),
        ),
        Failure(
            code="out_of_memory",
            title="Memory ran out while the model was loaded",
            pattern=re.compile(r"llama-server reported out-of-memory during startup"),
            why="weights, cache and compute buffer together do not fit, with the smaller context that Ollama tried too",
            do=("lower --context or --parallel", "choose a smaller cache dtype", "use a smaller quantisation"),
        ),
        Failure(
            code="ollama_memory",
            title="The model does not fit in the machine's memory",
            pattern=re.compile(r"model requires more system memory \(|msg=\"model is too large for system memory\""),
            why="weights, cache and compute buffer together are more than Ollama finds free before it loads",
            do=("lower --context or --parallel", "choose a smaller cache dtype", "use a smaller quantisation"),
        ),
        Failure(
            code="architecture_unknown",
            title="llama.cpp does not know the model's architecture",
            pattern=re.compile(r"unknown model architecture: '\S+'"),
            why="the llama-server that this Ollama brings is older than the model",
            do=("take a newer Ollama",),
        ),
        Failure(
            code="runner_missing",
            title="Ollama's llama-server is missing",
            pattern=re.compile(r"llama-server binary not found"),
            why="the installation is incomplete: lib/ollama lies beside the program",
            do=("install Ollama again",),
        ),
        Failure(
            code="model_does_not_load",
            title="The model does not load",
            pattern=re.compile(
                r"llama-server process (?:has terminated|no longer running)|timed out waiting for llama-server to start"
                r"|exiting due to model loading error"
            ),
            why="the child's own lines above say which part was refused",
            do=("read the log", "check that this Ollama knows the architecture"),
        ),
    )
)
