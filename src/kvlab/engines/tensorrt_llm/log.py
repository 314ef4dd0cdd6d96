"""trtllm-serve's start-up lines, TensorRT backend of 2023 to the PyTorch flow of 1.4.

The PyTorch flow makes its cache twice, a small one for the dry run and then the real one: the last statement counts.
Of the ranks' last caches the smallest counts, for what every rank must hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from kvlab.core.engine import LogReader
from kvlab.core.observation import Observation, Said, Seen, patterns_in, read_line
from kvlab.core.units import GIB, MIB

_X = r"(\d+(?:\.\d+)?)"

_SAID = (
    # "[MemUsageChange] Allocated 16.05 GiB for max tokens in paged KV cache (263008)."
    Said("kv_tokens", "tokens", re.compile(r"max tokens in paged KV cache \((\d+)\)")),
    Said("kv_allocated_bytes", "bytes", re.compile(rf"Allocated {_X} GiB for max tokens in paged KV cache"), GIB),
    # "Using 132608 tokens in paged KV cache." and "Using 29184 total tokens in paged KV cache" (to 0.9)
    Said("kv_tokens", "tokens", re.compile(r"Using (\d+) (?:total )?tokens in paged KV cache")),
    # "Allocate 69524783104 bytes for k/v cache." (to 0.9)
    Said("kv_allocated_bytes", "bytes", re.compile(r"Allocate (\d+) bytes for k/v cache")),
    # "Max tokens in paged KV cache: 38400. Allocating 5033164800 bytes." (0.9 and 0.10)
    Said("kv_tokens", "tokens", re.compile(r"Max tokens in paged KV cache: (\d+)\. Allocating \d+ bytes")),
    Said("kv_allocated_bytes", "bytes", re.compile(r"Max tokens in paged KV cache: \d+\. Allocating (\d+) bytes")),
    # "Loaded engine size: 15323 MiB" (the engine file of the TensorRT backend: its weights, and little else)
    Said("engine_bytes", "bytes", re.compile(r"Loaded engine size: (\d+) MiB"), MIB),
    # "KV cache manager v2 device quota set to 5.9501953125GiB" (1.2 on, where that manager is used): the bytes it takes
    Said("kv_pool_bytes", "bytes", re.compile(rf"KV cache manager v2 device quota set to {_X}GiB"), GIB),
    # "Estimated max memory in KV cache : 5.95 GiB" (after the dry run, less what max_gpu_total_bytes forbids)
    Said("kv_pool_bytes", "bytes", re.compile(rf"Estimated max memory in KV cache : {_X} GiB"), GIB),
    # "available KV cache memory when calculating max tokens: 5.95 GiB, fraction is set 0.8999999761581421,
    # kv size is 73728. device total memory 119.70 GiB, , tmp kv_mem 0.56 GiB" (1.0 on; later "kv size per token is")
    Said(
        "kv_pool_bytes", "bytes", re.compile(rf"available KV cache memory when calculating max tokens: {_X} GiB"), GIB
    ),
    Said("fraction", "share", re.compile(rf"fraction is set {_X}")),
    Said("kv_token_bytes", "bytes", re.compile(r"kv size (?:per token )?is (\d+)")),
    Said("device_bytes", "bytes", re.compile(rf"device total memory {_X} GiB"), GIB),
    Said("peak_bytes", "bytes", re.compile(rf"Peak memory during memory usage profiling [^:]*: {_X} GiB"), GIB),
    # "Memory used after loading model weights (inside torch) in memory usage profiling: 63.52 GiB"
    Said("weights_bytes", "bytes", re.compile(rf"after loading model weights \(inside torch\)[^:]*: {_X} GiB"), GIB),
    # "Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 63.62 GiB"
    Said("device_bytes", "bytes", re.compile(rf"in paged kv cache: total: {_X} GiB"), GIB),
    Said("free_bytes", "bytes", re.compile(rf"in paged kv cache: total: [\d.]+ GiB, available: {_X} GiB"), GIB),
    # "Max KV cache blocks per sequence: 65 [window size=2051], tokens per block=32, primary blocks=116617, secondary
    # blocks=0"; a model with windows of several sizes prints one line for each; "pages" to 0.17
    Said("blocks_per_sequence", "blocks", re.compile(r"Max KV cache (?:blocks|pages) per sequence: (\d+)")),
    Said("window", "tokens", re.compile(r"per sequence: \d+ \[window size=(\d+)\]")),
    Said("block_size", "tokens", re.compile(r"tokens per block=(\d+)")),
    Said("block_size", "tokens", re.compile(r"Number of tokens per block: (\d+)")),
    Said("num_gpu_blocks", "blocks", re.compile(r"primary blocks=(\d+)")),
    Said("num_gpu_blocks", "blocks", re.compile(r"Number of blocks in KV cache primary pool: (\d+)")),
    Said("host_blocks", "blocks", re.compile(r"secondary blocks=(\d+)")),
    Said("host_blocks", "blocks", re.compile(r"Number of blocks in KV cache secondary pool: (\d+)")),
    # "Attention window size 131072 exceeds upper bound 8224 for available blocks. Reducing to 8224."
    Said("longest_request_tokens", "tokens", re.compile(r"for available blocks\. Reducing to (\d+)")),
    # "max_seq_len=8224, max_num_requests=64, max_num_tokens=8192, max_batch_size=64"
    Said("context", "tokens", re.compile(r"max_seq_len=(\d+), max_num_requests=")),
    Said("max_batch_size", "requests", re.compile(r"max_num_requests=(\d+), max_num_tokens=")),
)
_VERSION = re.compile(r"TensorRT[- ]LLM version:? v?(\d[\w.+]*)")
_OURS = re.compile(r"\[TensorRT-LLM\]\[(?:INFO|WARNING|ERROR|DEBUG)\]|\[TRT-LLM\]|\btrtllm-serve\b|\btensorrt_llm[./]")
# "[10/21/2025-23:25:18] [TRT-LLM] [RANK 1] [I] " (the PyTorch flow since the autumn of 2025); "[1,2]<stdout>:" and
# "2: " are mpirun's and srun's before each line. The C++ part's own lines name no rank: "MPI size: 4, rank: 0" says how
# many write them.
_WORLD = re.compile(r"\bMPI size: (\d{1,4}),")
_RANK = re.compile(r"\[TRT-LLM\] \[RANK (\d+)\]|\[\d+,(\d+)\]<std(?:out|err)>:|^\s*(\d+): (?=.*\[T(?:ensor)?RT-LLM\])")
_SMALLEST = ("kv_pool_bytes", "kv_allocated_bytes", "kv_tokens", "num_gpu_blocks", "host_blocks", "free_bytes")
_LARGEST = ("weights_bytes", "peak_bytes", "engine_bytes")
_OF_WINDOW = ("blocks_per_sequence", "num_gpu_blocks", "host_blocks")


def _read(lines: Iterable[str]) -> Observation:
    version, world, ranks = None, 1, dict[str | None, _Rank]()
    for number, line in enumerate(lines, 1):
        if stated := _VERSION.search(line):
            version = stated.group(1)
        if size := _WORLD.search(line):
            world = int(size.group(1))
        if found := read_line(line, number, _SAID):
            named = _RANK.search(line)
            rank = None if named is None else next(group for group in named.groups() if group)
            ranks.setdefault(rank, _Rank()).add(found)
    named_ranks = len(ranks.keys() - {None})
    lasts = [(rank.said(), max(world, named_ranks) if name is None else 1) for name, rank in ranks.items()]
    seen = sorted((item for said, _ in lasts for item in said), key=lambda item: item.line_number or 0)
    return Observation(engine="tensorrt-llm", version=version, seen=(*seen, *_deciding(lasts)))


class _Rank:
    """What one rank states of its caches, one after another; that of lines without a rank's name."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self._of_cache: list[tuple[str | None, Seen]] = []

    def add(self, found: list[Seen]) -> None:
        """What one line states."""
        window = next((f"{item.value:.0f}" for item in found if item.name == "window"), None)
        self._of_cache += [(window, item) for item in found]
        if any(item.name == "kv_tokens" for item in found):
            self.seen += _named(self._of_cache)
            self._of_cache = []

    def said(self) -> list[Seen]:
        """Everything, in the order of the log."""
        return [*self.seen, *_named(self._of_cache)]


def _deciding(ranks: list[tuple[list[Seen], int]]) -> list[Seen]:
    """Of each rank's last statements (and how many ranks made them) the ones that decide, unless they are the last."""
    found = []
    for name in (*_SMALLEST, *_LARGEST):
        stated = [item for said, count in ranks for item in [one for one in said if one.name == name][-count:]]
        if len(stated) > 1:
            by_value = sorted(stated, key=lambda item: float(item.value))
            decides = by_value[0 if name in _SMALLEST else -1]
            if decides.value != max(stated, key=lambda item: item.line_number or 0).value:
                found.append(decides)
    return found


def _named(of_cache: list[tuple[str | None, Seen]]) -> list[Seen]:
    """What was said of one cache; with a pool for each window size, the blocks of each under a name of their own."""
    windows = {window for window, _ in of_cache if window}
    return [
        msgspec.structs.replace(item, name=f"{item.name}_window_{window}")
        if len(windows) > 1 and window and item.name in _OF_WINDOW
        else item
        for window, item in of_cache
    ]


LOG = LogReader(
    said=_SAID,
    recognises=lambda line: _OURS.search(line) is not None,
    read=_read,
    also=patterns_in(globals(), _OURS),
)
