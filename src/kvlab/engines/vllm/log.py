"""vLLM's start-up lines, V0 to 0.33, on GPUs and CPUs, with or without rank prefixes and colours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kvlab.core.engine import LogReader
from kvlab.core.observation import Observation, Said, Seen, patterns_in, read_line
from kvlab.core.units import GIB
from kvlab.engines.vllm import tier_lines

_N = r"(-?\d[\d,]*)"
_X = r"(-?\d[\d,]*(?:\.\d+)?)"

_SAID = (
    # "GPU KV cache size: 178,880 tokens" (0.7.3 to 0.27, a line of its own);
    # "CPU KV cache size: 55,356 tokens, Maximum concurrency for 2,048 tokens per request: 27.03x" (0.28 on)
    Said("kv_tokens", "tokens", re.compile(rf"\b[A-Z]+ KV cache size: {_N} tokens")),
    # "Maximum concurrency for 20000 tokens per request: 1.56x" (V0), "... 131,072 tokens ..." (V1)
    Said("max_concurrency_context", "tokens", re.compile(rf"Maximum concurrency for {_N} tokens per request: ")),
    Said("max_concurrency", "requests", re.compile(rf"Maximum concurrency for [\d,]+ tokens per request: {_X}x")),
    # "Available KV cache memory: 37.99 GiB" (0.9 on)
    Said("kv_pool_bytes", "bytes", re.compile(rf"Available KV cache memory: {_X} GiB"), GIB),
    # "... reserved 4.0 GiB memory for KV Cache as specified by kv_cache_memory_bytes config ..." (0.10.2 on)
    Said("kv_pool_bytes", "bytes", re.compile(rf"reserved {_X} GiB memory for KV Cache as specified"), GIB),
    # "Explicitly set (1.0/9.96) GiB for KV cache on node 0." and "Auto set (...)" (CPU)
    Said("kv_pool_bytes", "bytes", re.compile(rf"(?:Explicitly|Auto) set \({_X}/[\d.]+\) GiB for KV cache"), GIB),
    # The same lines: this pool was asked for, so it says nothing about the memory
    Said("pool_given", "word", re.compile(r"memory for KV Cache (as specified) by ")),
    Said("pool_given", "word", re.compile(r"\b(Explicitly set) \([\d.]+/[\d.]+\) GiB for KV cache")),
    # "the rest of the memory reserved for KV Cache is 1.57GiB." (V0), "kv_cache_size=3.81GiB" (V0 to 0.6)
    Said("kv_pool_bytes", "bytes", re.compile(rf"reserved for KV Cache is {_X}GiB"), GIB),
    Said("kv_pool_bytes", "bytes", re.compile(rf"\bkv_cache_size={_X}GiB"), GIB),
    # V0's refusal: "The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in
    # KV cache (22032). Try increasing ..."
    Said("kv_tokens", "tokens", re.compile(rf"maximum number of tokens that can be stored in KV cache \({_N}\)")),
    # The refusal: "... larger than the available KV cache memory (3.18 GiB). Based on ..." (0.6 on)
    Said("kv_pool_bytes", "bytes", re.compile(rf"than the available KV cache memory \({_X} GiB\)"), GIB),
    # "Model loading took 15.27 GiB memory and 3.1 seconds" (0.11 on), "... 14.9888 GiB and ..." (0.8 to 0.10)
    Said("weights_bytes", "bytes", re.compile(rf"Model loading took {_X} GiB"), GIB),
    # "Loading model weights took 67.7229 GB" (to 0.8; the unit is GiB in spite of its name)
    Said("weights_bytes", "bytes", re.compile(rf"Loading model weights took {_X} G"), GIB),
    # "model weights take 21.21GiB; non_torch_memory takes 0.20GiB; PyTorch activation peak memory takes 0.37GiB; ..."
    # (V0, 0.6.4 on), "Actual usage is 0.88 GiB for weight, 0.26 GiB for peak activation, 0.16 GiB for non-torch memory,
    # and 0.24 GiB for CUDAGraph memory." (0.10.2 on), "Actual usage is 15.26 GiB for consumed memory (weights +
    # non-torch), 1.44 GiB for peak activation, and ..." (0.26 on)
    Said("weights_bytes", "bytes", re.compile(rf"\bmodel weights take {_X}GiB"), GIB),
    Said("weights_bytes", "bytes", re.compile(rf"\bActual usage is {_X} GiB for weight,"), GIB),
    Said("consumed_bytes", "bytes", re.compile(rf"\bActual usage is {_X} GiB for consumed memory"), GIB),
    # "torch peak memory increase: 1.42GiB; non-torch forward increase memory: 0.51GiB; weights memory: 18.26GiB."
    # (0.9 to 0.13, at debug)
    Said("weights_bytes", "bytes", re.compile(rf"\bweights memory: {_X}GiB"), GIB),
    Said("activation_bytes", "bytes", re.compile(rf"torch peak memory increase: {_X}GiB"), GIB),
    Said("non_torch_bytes", "bytes", re.compile(rf"non-torch forward increase memory: {_X}GiB"), GIB),
    Said("activation_bytes", "bytes", re.compile(rf"activation peak memory takes {_X}GiB"), GIB),
    Said("activation_bytes", "bytes", re.compile(rf" {_X} GiB for peak activation,"), GIB),
    Said("non_torch_bytes", "bytes", re.compile(rf"non_torch_memory(?: takes |=){_X}GiB"), GIB),
    Said("non_torch_bytes", "bytes", re.compile(rf" {_X} GiB for non-torch memory,"), GIB),
    # "Graph capturing finished in 21 secs, took 0.46 GiB" (V1; V0 from 0.6.5 on)
    Said("graph_bytes", "bytes", re.compile(rf"Graph capturing finished in \d+ secs?, took {_X} GiB"), GIB),
    # "CUDA graph pool memory: 0.4 GiB (actual), 0.26 GiB (estimated), difference: 0.14 GiB (35.3%)." (0.18 on)
    Said("graph_bytes", "bytes", re.compile(rf"CUDA graph pool memory: {_X} GiB \(actual\)"), GIB),
    Said("graph_bytes", "bytes", re.compile(rf" {_X} GiB for CUDAGraph memory"), GIB),
    # "Estimated CUDA graph memory: 0.36 GiB total" (0.18 on)
    Said("graph_estimate_bytes", "bytes", re.compile(rf"Estimated CUDA graph memory: {_X} GiB total"), GIB),
    # "# GPU blocks: 1952, # CPU blocks: 2048", "# cuda blocks: ..." (V0), "# GPU blocks: 1381" (V1 before 0.7.3)
    Said("num_gpu_blocks", "blocks", re.compile(rf"\b(?:GPU|cuda) blocks: {_N}")),
    Said("num_cpu_blocks", "blocks", re.compile(rf"blocks: \d+, # CPU blocks: {_N}")),
    # "vllm cache_config_info with initialization after num_gpu_blocks is: 57656" (0.8.5 to 0.13, for each engine)
    Said(
        "num_gpu_blocks", "blocks", re.compile(rf"cache_config_info with initialization after num_gpu_blocks is: {_N}")
    ),
    # "Overriding num_gpu_blocks=1820 with num_gpu_blocks_override=101"
    Said("num_gpu_blocks", "blocks", re.compile(rf"Overriding num_gpu_blocks=\d+ with num_gpu_blocks_override={_N}")),
    # "kv cache group sizes [2848, 2848]" (0.30 on), "(128, 128)" (0.32); only when all groups have the same
    Said("block_size", "tokens", re.compile(r"kv cache group sizes [(\[](\d+)(?:, \1)*,?[)\]]")),
    # "Setting attention block size to 1568 tokens to ensure that ..." (hybrids)
    Said("block_size", "tokens", re.compile(r"Setting attention block size to (\d+) tokens")),
    # "Setting kv cache block size to 64 for FLASHMLA backend(s)."
    Said("block_size", "tokens", re.compile(r"Setting kv cache block size to (\d+) for")),
    # "Using fp8 data type to store kv cache. It reduces the GPU memory footprint ..." (quantised caches)
    Said("kv_cache_dtype", "word", re.compile(r"Using (\w+) data type to store kv cache")),
    # "Initializing a V1 LLM engine (v0.10.1.1) with config: ... enforce_eager=False, kv_cache_dtype=auto, ..." (0.4 on)
    Said("kv_cache_dtype", "word", re.compile(r"LLM engine \(v.*? kv_cache_dtype=(\w+)")),
    # The refusal, 0.9 on: "(48.0 GiB KV cache is needed, which is larger than the available KV cache memory ..."
    Said("request_bytes", "bytes", re.compile(rf"\({_X} GiB KV cache is needed"), GIB),
    # "Based on the available memory, the estimated maximum model length is 896. Try ..." (0.8 left the number out)
    Said("longest_request_tokens", "tokens", re.compile(r"the estimated maximum model length is (\d+)\b")),
    *tier_lines.SAID,
)
# "..., Running: 803 reqs, Waiting: 168 reqs, GPU KV cache usage: 99.9%, Prefix cache hit rate: 49.1%" (every 10 s; V0:
# "..., Running: 207 reqs, Swapped: 0 reqs, Pending: 274 reqs, GPU KV cache usage: 98.9%, CPU KV cache usage: 0.0%.")
_SERVING = re.compile(
    r"\bRunning: (\d+) reqs, (?:Swapped: \d+ reqs, )?(?:Waiting|Pending): (\d+) reqs,"
    r".*?\b[A-Z]+ KV cache usage: ([\d.]+)%"
)
_PEAKS = (
    ("peak_running_requests", "requests", 1.0),
    ("peak_waiting_requests", "requests", 1.0),
    ("peak_kv_used_ratio", "share", 0.01),
)
# "... is preempted by PreemptionMode.RECOMPUTE mode ... total_num_cumulative_preemption=101" (V0; V1 logs none)
_COUNTS = (Said("preemptions_total", "requests", re.compile(r"\btotal_num_cumulative_preemption=(\d+)")),)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# "Initializing a V1 LLM engine (v0.32.0) with config", "vLLM API server version 0.8.5", the banner's "version 0.32.0"
_VERSION = re.compile(r"LLM engine \(v([\w.+]+)\)|vLLM API server version ([\w.+]+)|█\s+version ([\w.+]+)")
_OURS = re.compile(
    # SGLang to 0.4.6 imports vLLM, whose "[__init__.py:190] Automatically detected platform cuda." then begins its log
    r"\b(?:DEBUG|INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d \[(?!__init__\.py:)[\w/.\-]+\.py:\d+\]"
    r"|\b[A-Z]+ KV cache size: [\d,]+ tokens|\(EngineCore|\bvllm(?: serve|:|/|\.)|VLLM_"
    # Before 0.7.2 without brackets; only modules that SGLang does not run as well
    r"|\b(?:INFO|WARNING|ERROR) \d\d-\d\d \d\d:\d\d:\d\d (?:\w*llm_engine|\w*executor(?:_base)?|\w*model_runner|metrics"
    r"|scheduler|kv_cache_utils|core|worker)\.py:\d+\] |# (?:GPU|cuda) blocks: \d+"
    r"|\bSequence group \S+ is preempted by |\bMaximum concurrency for [\d,]+ tokens|\bAvailable KV cache memory: "
)
# Ranks state these one by one: the smallest pool decides the blocks, the largest rank the weights.
_LARGEST = (
    "weights_bytes",
    "graph_bytes",
    "graph_estimate_bytes",
    "consumed_bytes",
    "activation_bytes",
    "non_torch_bytes",
)
_MEMORY, _CAPACITY = ("weights_bytes", "kv_pool_bytes"), ("kv_tokens", "max_concurrency")
_OF_RANKS = {"kv_pool_bytes": min, **dict.fromkeys(_LARGEST, max)}


def _read(lines: Iterable[str]) -> Observation:
    version, seen, served = None, list[Seen](), dict[str, Seen]()
    for number, line in enumerate(lines, 1):
        plain = _COLOUR.sub("", line)
        if stated := _VERSION.search(plain):
            version = next(group for group in stated.groups() if group)
        for item in read_line(plain, number, _SAID):
            _add(seen, item)
        if serving := _SERVING.search(plain):
            for (name, unit, scale), text in zip(_PEAKS, serving.groups(), strict=True):
                value = round(float(text) * scale, 6)
                # Made of the peaks alone: a log of a gigabyte holds millions of these lines.
                if _is_peak(served, name, value):
                    served[name] = Seen(name=name, value=value, unit=unit, line=plain.strip(), line_number=number)
        for item in read_line(plain, number, _COUNTS):
            if _is_peak(served, item.name, float(item.value)):
                served[item.name] = item
    return Observation(engine="vllm", version=version, seen=(*seen, *served.values()))


def _is_peak(served: Mapping[str, Seen], name: str, value: float) -> bool:
    """Whether what a line says of the requests being served is more than any line before it said."""
    before = served.get(name)
    return before is None or value > float(before.value)


def _add(seen: list[Seen], item: Seen) -> None:
    """Keep one statement per start where ranks each make theirs: memory first, then what it holds (each, to 0.9)."""
    choose = min if item.name in _CAPACITY else _OF_RANKS.get(item.name)
    if choose is not None:
        ends = _MEMORY if item.name in _CAPACITY else _CAPACITY
        for index in range(len(seen) - 1, -1, -1):
            if seen[index].name in ends:
                break
            if seen[index].name == item.name:
                if choose(seen[index].value, item.value) != seen[index].value:
                    seen[index] = item
                return
    seen.append(item)


LOG = LogReader(
    said=_SAID + _COUNTS,
    recognises=lambda line: _OURS.search(_COLOUR.sub("", line)) is not None,
    read=_read,
    also=patterns_in(globals(), _OURS, _COLOUR),
    starts=re.compile(r"vLLM API server version "),
)
