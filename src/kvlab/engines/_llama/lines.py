"""llama-server's start-up lines, 2023 to now, with and without prefixes."""

from __future__ import annotations

import re

from kvlab.core.observation import Said, Seen, patterns_in, read_line
from kvlab.core.units import MIB

_N = r"(\d{1,12})"
_X = r"(\d{1,12}(?:\.\d+)?)"
"""A number as the lines print it; "1.2.3" and 400 digits are none."""
# "llama_kv_cache: size = 12.75 MiB (  2048 cells,   3 layers,  4/4 seqs), K (q8_0): 6.38 MiB, V (q8_0): 6.38 MiB"
# (since September 2025; "llama_kv_cache_unified: size = ... 1/ 1 seqs" and "1 seqs" before)
SIZE = re.compile(
    rf"llama_kv_cache\w*\s*:\s+size\s*=\s*{_X} MiB \(\s*{_N} cells,\s*{_N} layers,\s*\d+(?:/\s*\d+)?\s+seqs\),"
    rf" K \((\w+)\):\s*{_X} MiB, V \((\w+)\):\s*{_X} MiB"
)
# "llama_new_context_with_model: KV self size = 256.00 MiB, K (f16): 128.00 MiB, V (f16): 128.00 MiB" (2024), said by
# llama_init_from_model and llama_context_kv_self in the spring of 2025
OLD_SIZE = re.compile(rf"KV self size\s*=\s*{_X} Mi?B, K \((\w+)\):\s*{_X} Mi?B, V \((\w+)\):\s*{_X} Mi?B")
# "llama_new_context_with_model: kv self size  =  162.50 MB" (2023; 2^20 bytes, "MiB" from November on)
OLDEST_SIZE = re.compile(rf"\bkv self size\s*=\s*{_X} Mi?B")
# "llama_kv_cache_init: kv_size = 512, offload = 1, type_k = 'f16', type_v = 'f16', n_layer = 12, can_shift = 1" before
# it (end of 2024), by "init" and llama_kv_cache_unified in the spring of 2025
KV_SIZE = re.compile(rf"\b(?:llama_kv_cache\w*|init): kv_size = {_N}, .*\bn_layer = {_N}(?![\w.])")
# "llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells"; hybrids name the function "operator()"
CREATING = re.compile(
    r"\S+: creating (?:DSV4 )?(non-SWA|\s*SWA|main|DSA|\S*indexer|CSA compressed|HCA compressed) KV cache"
    r"(?:, size = (\d{1,12}) cells)?"
)
KINDS = {
    "SWA": "window",
    "indexer": "indexer",
    "lightning-indexer": "indexer",
    "CSA compressed": "pool4",
    "HCA compressed": "pool128",
}
# "llama_dsv4_comp_state: csa ratio = 4, state = 8 x 1024, streams = 1, rs_seq = 0, layers = 21, size =    1.31 MiB"
TAIL = re.compile(rf"llama_dsv4_comp_state: (csa|hca|lid) ratio = .* size =\s*{_X} MiB")
TAILS = {"csa": "pool4", "hca": "pool128", "lid": "indexer"}
# "llama_kv_cache:        CPU KV buffer size =    12.75 MiB"; 0.00 while the fit pass only measures
BUFFER = re.compile(rf"\b(?:llama_kv_cache\w*|init)\s*:\s+\S+ KV buffer size\s*=\s*{_X} MiB")
# "print_info: no_alloc              = 1" begins a pass that only measures, 0 one that loads (2026)
NO_ALLOC = re.compile(r"print_info: no_alloc\s+= ([01])\b")
# "llama_memory_recurrent: size =   75.38 MiB (     1 cells,  48 layers,  1 seqs  0 rs_seq), R (f32): ... S (f32): ..."
STATE = re.compile(rf"llama_memory_recurrent: size\s*=\s*{_X} MiB \(\s*\d+ cells,\s*{_N} layers")
# "llama_memory_recurrent:        CPU RS buffer size =    75.38 MiB"; 0.00 as above
STATE_BUFFER = re.compile(rf"llama_memory_recurrent:\s+\S+ RS buffer size\s*=\s*{_X} MiB")
STATE_PART = re.compile(rf" ([RS]) \(\w+\):\s*{_X} MiB")
# "load_tensors:   CPU_Mapped model buffer size =   235.16 MiB"; "llm_load_tensors:" in 2024, at first without "model";
# "llm_load_tensors: mem required  =  107.55 MB" on the host and "VRAM used: 8694.21 MB" in the autumn of 2023
LOADED = re.compile(
    rf"load_tensors:\s+(\S+)(?: model)? buffer size\s*=\s*{_X} MiB|llm_load_tensors: mem required\s*=\s*{_X} Mi?B"
    rf"|llm_load_tensors: VRAM used: {_X} Mi?B"
)
_FILE = r"(?:print_info: file size|llm_load_print_meta: model size)"
_CONTEXT = r"(?:llama_(?:context|new_context_with_model|init_from_model))"
"""The function that makes the context, in the order of 2025 and later, 2024, and the winter between."""
# "sched_reserve:        CPU compute buffer size =    29.31 MiB"; "init:" in the spring of 2025;
# "llama_new_context_with_model: compute buffer total size = 359.57 MB" (2023)
COMPUTE = re.compile(
    rf"(?:sched_reserve|\binit|{_CONTEXT}):\s+(\S+) compute buffer size\s*=\s*{_X} MiB"
    rf"|compute buffer total size =\s*{_X} Mi?B"
)
# One of these lines into which another thread wrote: "Vulkan0 compute buffer size =   98srv  log_server_r: request ..."
CUT = re.compile(
    rf"\b(model|compute|KV|RS) buffer (?:total )?size\b(?!\s*=\s*{_X} Mi?B)"
    rf"|llm_load_tensors: (?:mem required\b(?!\s*=\s*{_X} Mi?B)|VRAM used\b(?!: {_X} Mi?B))"
)

# "llama_context: constructing llama_context", "llama_context: n_ctx                 = 8192" and "llama_context:
# n_ctx_seq (2048) < n_ctx_train (131072) -- ...", all before its caches; in 2023 "llama_model_load_internal:
# n_ctx      = 512"
NEW_CONTEXT = re.compile(
    rf"{_CONTEXT}: (?:constructing|n_ctx\s+=|n_seq_max\s+=|n_ctx_(?:per_)?seq\s+[=(])"
    r"|llama_model_load_internal: n_ctx\s+="
)
# Said before the buffers of a model's weights: its metadata, and which layers go where
LOADING = re.compile(
    r"print_info: |llm_load_print_meta: |load_tensors: (?:loading model tensors|ggml ctx size|using |layer |offload)"
)
# "srv    load_model: loading model 'gemma-3-270m.gguf'" (2024 on): also when a server wakes up that was idle
LOAD = re.compile(r"load_model: loading model '")
# "srv    load_model: loading draft model '...'" (November 2024 on), "creating MTP draft context against the target
# model" (2026): a second model or context of the same start
DRAFT = re.compile(r"loading draft model|creating MTP draft context")

# With the prefix "0.01.325.914 I ", inside JSON, or bare.
SAID = (
    Said("n_ctx", "tokens", re.compile(rf"(?:{_CONTEXT}|llama_model_load_internal): n_ctx\s+= (\d+)")),
    # n_ctx_per_seq to the autumn of 2025
    Said("n_ctx_seq", "tokens", re.compile(rf"{_CONTEXT}: n_ctx_(?:per_)?seq\s+= (\d+)")),
    Said("ubatch", "tokens", re.compile(rf"{_CONTEXT}: n_ubatch\s+= (\d+)")),
    Said("flash_attention", "word", re.compile(rf"{_CONTEXT}: flash_attn\s+= (auto|enabled|disabled|[01])\b")),
    # "srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'false'" (2026), before that
    # "initializing slots, n_slots = 1" and for each slot "new slot, n_ctx = 262144" or "new slot n_ctx_slot = 4096"
    Said("slots", "slots", re.compile(r"initializing(?: slots)?, n_slots = (\d+)")),
    Said("n_ctx_slot", "tokens", re.compile(r"n_slots = \d+, n_ctx_slot = (\d+)")),
    Said("n_ctx_slot", "tokens", re.compile(r"\| new slot,? n_ctx(?:_slot)? = (\d+)")),
    # " -> Slot 0 - max context: 512" (winter of 2023)
    Said("n_ctx_slot", "tokens", re.compile(r"-> Slot \d+ - max context: (\d+)")),
    Said("kv_unified", "word", re.compile(r"n_ctx_slot = \d+, kv_unified = '(true|false)'")),
    Said("native_context", "tokens", re.compile(r"(?:print_info|llm_load_print_meta): n_ctx_train\s+= (\d+)")),
    Said("weights_file_bytes", "bytes", re.compile(rf"{_FILE}\s+= {_X} MiB"), MIB),
    Said("weights_file_bytes", "bytes", re.compile(rf"{_FILE}\s+= {_X} GiB"), 1024 * MIB),
    Said("output_buffer_bytes", "bytes", re.compile(rf"{_CONTEXT}:\s+\S+\s+output buffer size =\s*{_X} MiB"), MIB),
    # "load_tensors: offloaded 29/29 layers to GPU"; Ollama to 0.29 says msg="offloaded 41/41 layers to GPU"
    Said("gpu_layers", "layers", re.compile(r"\boffloaded (\d+)/\d+ layers to GPU")),
)


def stated(number: int, line: str) -> list[Seen]:
    """What one line says beside the caches."""
    return read_line(line, number, SAID)


OURS = re.compile(
    r"llama_(?:kv_cache|context|model_load|new_context|memory|init)|\bllama_server|load_tensors:|srv +\w+:"
    r"|\bslot +\w+: id +\d+ \||\bllm_load_print_meta: |\bcommon_(?:params_fit_impl|memory_breakdown_print): "
)
"""Lines that only llama.cpp prints."""
CACHE_LINES = patterns_in(globals(), OURS, STATE_PART)
"""What the sums are read from."""
