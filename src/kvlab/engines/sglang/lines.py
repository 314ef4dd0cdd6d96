"""The start-up lines of SGLang 0.4.0 to 0.5.23, with the quantities that they state. "GB" means GiB in all of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from kvlab.core.observation import Said
from kvlab.core.units import GIB
from kvlab.engines.sglang import tier_lines

_GB = r"(\d+(?:\.\d+)?) ?GB"

# "[2025-03-08 12:29:21 TP0] ", "[2026-01-05 10:00:00 DP1 TP3 EP3] ", "[2026-10-05 10:00:00 DP0 PP0 ATTN_CP0 TP0] "
RANK = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d((?: [A-Z_]{2,8}\d+)+)\]")
COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")

# "server_args=ServerArgs(model_path=...", or "server_args={'model_path': ..." (autumn of 2026), is the first line of a
# start; "Load weight begin" the first of each model.
FIRST = re.compile(r"\bserver_args=(?:ServerArgs\(|\{')")
LOADING = re.compile(r"\bLoad weight begin\.")
# "Load weight end. ... type=Qwen4ExpForCausalLMMTP, ..." and "type=LlamaForCausalLMEagle3, ..." name a draft's model
LOADED = re.compile(r"\bLoad weight end\. .*?\btype=(\w+)")
DRAFT = re.compile(r"NextN|Eagle|MTP|Draft|Medusa")
# "Mamba Cache is allocated. ..." and "Init torch distributed begin." come before the pools, "Capture target verify CUDA
# graph begin. ..." before the line that ends it
BEGUN = re.compile(r"\bMamba Cache is allocated\. |\bInit torch distributed ")
GRAPH_BEGINS = re.compile(r"\bCapture (?:[\w-]+ )*cuda graph begin\b", re.I)
# "[2026-10-02 00:39:41] ", with the rank before its bracket
CLOCK = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\b")
# "Memory pool end. avail mem=2.09 GB" follows the pools of the target, and those of each draft model
POOLS_END = re.compile(rf"\bMemory pool end\. avail mem={_GB}")
# "max_total_num_tokens=46611, chunked_prefill_size=2048, ..." ends a start
SIZED = re.compile(r"\bmax_total_num_tokens=(\d+), ")

SMALLEST: tuple[Said, ...] = (
    # Ranks state these one by one, and the smallest decides.
    # "max_total_num_tokens=46611, chunked_prefill_size=2048, max_prefill_tokens=16384, max_running_requests=2049, ..."
    Said("kv_tokens", "tokens", SIZED),
    Said("max_running_requests", "requests", re.compile(r"\bmax_running_requests=(\d+), context_len=")),
    # the last word of the line up to 0.4.8; then ", available_gpu_mem=13.38 GB"
    Said("context_len", "tokens", re.compile(r"\bmax_running_requests=\d+, context_len=(\d+)(?:,|\s*\n)")),
    Said("chunked_prefill_size", "tokens", re.compile(r"\bmax_total_num_tokens=\d+, chunked_prefill_size=(-?\d+), ")),
    Said("free_after_start_bytes", "bytes", re.compile(rf"\bavailable_[gc]pu_mem={_GB}"), GIB),
    Said("free_before_load_bytes", "bytes", re.compile(rf"\bLoad weight begin\. avail mem={_GB}"), GIB),
    # "Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, mem usage=15.54 GB." (to 0.5.8),
    # "Load weight end. elapsed=0.38 s, type=..., quant=..., avail mem=... GB, mem usage=... GB." (since)
    Said("free_after_load_bytes", "bytes", re.compile(rf"\bLoad weight end\. .*?avail mem={_GB}"), GIB),
    # "Use sliding window memory pool. full_layer_tokens=81920, swa_layer_tokens=65536" ("Sliding" to 0.5.7)
    Said("kv_window_tokens", "tokens", re.compile(r"sliding window memory pool.*\bswa_layer_tokens=(-?\d+)\b", re.I)),
    Said("kv_full_tokens", "tokens", re.compile(r"sliding window memory pool.*\bfull_layer_tokens=(-?\d+), ", re.I)),
    # "Mamba Cache is allocated. max_mamba_cache_size: 48, conv_state size: 0.09GB, ssm_state size: 6.46GB" (0.5.5 on)
    Said("kv_state_slots", "slots", re.compile(r"\bMamba Cache is allocated\. max_mamba_cache_size: (\d+), ")),
)
LARGEST: tuple[Said, ...] = (
    # Ranks state these one by one; where they differ the largest is what a plan must hold.
    Said("weights_bytes", "bytes", re.compile(rf"\bLoad weight end\. .*?mem usage={_GB}"), GIB),
    # "Init torch distributed ends. mem usage=0.13 GB", "... elapsed=1.30 s, mem usage=0.13 GB" (0.5.9 on)
    Said("communication_bytes", "bytes", re.compile(rf"\bInit torch distributed ends\. .*?mem usage={_GB}"), GIB),
    Said("kv_conv_bytes", "bytes", re.compile(rf"\bMamba Cache is allocated\. .*?conv_state size: {_GB}"), GIB),
    Said("kv_ssm_bytes", "bytes", re.compile(rf"\bMamba Cache is allocated\. .*? ssm_state size: {_GB}"), GIB),
    Said("kv_spec_state_bytes", "bytes", re.compile(rf"\bintermediate_ssm_state_cache size: {_GB}"), GIB),
    # "SWAKVPool mem usage: 55.87 GB, swa size: 612620, full size: 765776"
    Said("kv_bytes", "bytes", re.compile(rf"\bSWAKVPool mem usage: {_GB}"), GIB),
    # "Reserving 0.10 GB of the KV budget for post-sizing multimodal allocations" (0.5.18 on)
    Said("multimodal_bytes", "bytes", re.compile(rf"\bReserving {_GB} of the KV budget for post-sizing"), GIB),
)
STATED: tuple[Said, ...] = (
    # Said once: by the request itself, or by the first rank.
    Said("mem_fraction_static", "share", re.compile(r"\bmem_fraction_static(?:=|': )(\d*\.?\d+), ")),
    Said("page_size", "tokens", re.compile(r"server_args=.*\bpage_size(?:=|': )(\d+), ")),
    # "Using KV cache dtype: torch.bfloat16" (0.5.3 to 0.5.9), "KV Cache is allocated. dtype: torch.bfloat16, " (since)
    Said("kv_cache_dtype", "word", re.compile(r"\bUsing KV cache dtype: (?:torch\.)?([\w.]+)\s*\n")),
    Said(
        "kv_cache_dtype",
        "word",
        re.compile(r"\bKV (?:Cache is allocated|Cache VA upper bound|cache allocated)\. dtype: (?:torch\.)?([\w.]+), "),
    ),
)
ALL = (*SMALLEST, *LARGEST, *STATED, *tier_lines.SAID)
CHOICE: dict[str, Callable[[float, float], float]] = {
    **{said.name: min for said in (*SMALLEST, *tier_lines.SAID)},
    **{said.name: max for said in LARGEST},
}

# "KV Cache is allocated. K size: 27.13 GB, V size: 27.13 GB." (to 0.4.2),
# "KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB" (0.4.3 on; its dtype first since 0.5.10),
# "KV Cache is allocated. #tokens: 274934, KV size: 17.99 GB" (latents, 0.4.6 on)
# "Post-capture KV sizing: KV cache allocated. ... KV size: 40.00 GB, avail mem=6.10 GB" replaces the target's pool,
# whose "KV Cache VA upper bound. ..." only reserved addresses (autumn of 2026, when asked for)
CACHE = re.compile(
    r"KV (?:Cache is allocated|Cache VA upper bound|cache allocated)\.(?: [^#,]+,)*(?: #tokens: (\d+),)?"
    rf"(?: [^#,]+,)*? (?:K size: {_GB}, V size: {_GB}|KV size: {_GB})"
)
POOL = re.compile(r"KV (?:Cache is|cache) allocated\.")
_BOUND, POST_CAPTURE = "VA upper bound", "Post-capture KV sizing: KV cache allocated."
# "Capture cuda graph end. Time elapsed: 7.23 s. avail mem=0.53 GB. mem usage=0.93 GB." (0.4.4 on), with the two amounts
# the other way round later; "Capture target decode CUDA graph end. elapsed=6.13 s, mem usage=6.13 GB, avail mem=..."
GRAPHS = re.compile(rf"\bCapture (?:[\w-]+ )*cuda graph end\..*?mem usage={_GB}", re.I)
GRAPH_ENDS = re.compile(r"\bcuda graph end\b", re.I)
"""Without a size to 0.4.3, and where another thread wrote into the line."""
# "KV cache pool is full. Retract requests. #retracted_reqs: 1, #new_tokens_gained: 646, ..." ("#retracted_reqs" from
# 0.4.9 on; "Decode out of memory happened. #retracted_reqs: 1, " before)
RETRACTED = re.compile(r"(?:KV cache pool is full|Decode out of memory happened)\..*?#retracted_reqs: (\d+), ")
# "Decode batch, #running-req: 67, #token: 81316, token usage: 0.93, ..."; "full token usage: 0.41"
USAGE = re.compile(r"token usage: (\d+\.\d+), ")

STARTING = (
    # Words of which every line of a start holds one: looking for them first is what makes long logs quick to read.
    *("Load weight", "Memory pool end", "max_total_num_tokens=", "max_running_requests=", "KV Cache", "Mamba Cache"),
    *(
        "SWAKVPool",
        "window memory pool",
        "torch distributed ",
        "of the KV budget",
        "server_args=",
        "KV cache dtype",
    ),
    *("KV cache allocated", "graph end", "graph begin", "mem_fraction_static=", "intermediate_ssm_state_cache"),
    *tier_lines.WORDS,
)
SERVING = (" batch", "#retracted_reqs")

OURS = re.compile(
    r"\bserver_args=(?:ServerArgs\(|\{')|\bLoad weight (?:begin|end)\. |\bmax_total_num_tokens=\d+, "
    r"|\bMemory pool end\. avail|\bKV Cache is allocated\. |\b(?:Prefill|Decode) batch[.,] #(?:new-seq|running-req): "
    r"|The server is fired up and ready to roll|\bsglang\.(?:srt|launch_server)\b|KV cache pool is full\. Retract"
)


class Allocation(NamedTuple):
    """One pool that a rank allocates. Tokens and bytes are None where the line does not state them (apart)."""

    tokens: int | None
    key: float | None
    value: float | None
    both: float | None
    line: str
    number: int


def allocations(line: str, number: int) -> list[Allocation]:
    """The pools that a line states."""
    found = []
    for match in CACHE.finditer(line):
        tokens, key, value, both = (None,) * 4 if _BOUND in match.group(0) else match.groups()
        sizes = [None if text is None else float(text) * GIB for text in (key, value, both)]
        count = None if tokens is None else int(tokens)
        found.append(Allocation(count, sizes[0], sizes[1], sizes[2], line.strip(), number))
    return found
