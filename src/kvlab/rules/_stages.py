"""Lines, and frames of tracebacks, that tell how far a start has come."""

from __future__ import annotations

import re

from kvlab.core.rule import Stage

STAGES: tuple[tuple[Stage, re.Pattern[str]], ...] = (
    (
        "",  # a new start: what an earlier one reached is over
        re.compile(
            r"vLLM API server version|non-default args: \{"  # vLLM
            r"|server_args=ServerArgs\("  # SGLang
            r"|\bbuild_info: |\bbuild: \d+ \("  # llama.cpp
            r"|msg=\"Listening on |msg=\"starting (?:llama-|llama |ollama |)(?:server|runner)"  # Ollama, and its child
            r"|TensorRT-LLM\] TensorRT-LLM version|input backend=\w+, backend_config="  # TensorRT-LLM, LMDeploy
        ),
    ),
    (
        "loading",
        re.compile(
            r"Starting to load model|Loading safetensors checkpoint shards|Loading pt checkpoint shards"  # vLLM
            r"|, in load_model\b|, in load_weights\b|, in create_weights\b"
            r"|, in _initialize_model\b|, in initialize_model\b"
            r"|Load weight begin"  # SGLang
            r"|llama_model_loader: loaded meta data"  # llama.cpp
        ),
    ),
    (
        "loaded",
        re.compile(
            r"Model loading took|Loading model weights took"  # vLLM
            r"|, in determine_available_memory\b|, in determine_num_available_blocks\b|, in profile_run\b"
            r"|Load weight end"  # SGLang
            r"|load_tensors: offloaded \d+/\d+ layers|llama_context: constructing llama_context"  # llama.cpp
            r"|failed to allocate buffer for kv cache|failed to allocate compute"  # it says itself what was not made
            r"|Memory used after loading model weights"  # TensorRT-LLM
        ),
    ),
    (
        "sized",
        re.compile(
            r"KV cache size: [\d,]+ tokens|\b(?:GPU|cuda) blocks: \d|Capturing CUDA graph|Capturing the model for CUDA"
            r"|, in capture_model\b|, in _dummy_run\b|, in compile_or_warm_up_model\b|, in initialize_from_config\b"
            r"|KV Cache is allocated|Memory pool end|Capture (?:decode )?(?:cuda|CUDA) graph begin"
            r"|, in init_cuda_graphs\b"
            r"|for max tokens in paged KV cache|\[BlockManager\] max_block_count"
        ),
    ),
    (
        "serving",
        re.compile(
            r"Application startup complete|The server is fired up and ready to roll|, in run_busy_loop\b"
            r"|, in event_loop_(?:normal|overlap)\b|listening on https?://|main: model loaded|: model loaded$"
            r"|llama runner started|Avg generation throughput|Decode batch"
        ),
    ),
)
