"""Scheduler limits and graph sizes that vLLM chooses by itself, by release and GPU.

Rules: `vllm serve` in vllm/engine/arg_utils.py and vllm/config/vllm.py of 0.8.5 to 0.32.0.
"""

from __future__ import annotations

from kvlab.core.engine import Gpu
from kvlab.core.layout import Layout
from kvlab.core.plan import Ask
from kvlab.core.units import GIB
from kvlab.engines.vllm.dtypes import is_sparse
from kvlab.engines.vllm.platform import capability, on_cpu, switched_off, switched_on
from kvlab.engines.vllm.versions import release

_V1 = (0, 8, 0)
_A100_APART = (0, 9, 0)  # large batches made A100s slower
_CAPPED = (0, 11, 0)  # no more tokens than all sequences hold
_HUGE_TIER = (0, 28, 0)
_GRAPHS_COUNTED = (0, 20, 0)
_STEPS_OF_16 = (0, 11, 0)
_WIDE_GRAPHS = (0, 28, 0)  # Blackwell captures up to 1,024 tokens
_CHUNKED_ABOVE = 32768  # V0 chunks the prefill of longer contexts only
_LOW_LATENCY = ("deepep_low_latency", "nixl_ep")


def utilisation(ask: Ask) -> float:
    """`--gpu-memory-utilization` when it is not given."""
    return 0.92 if release(ask) >= (0, 20, 0) else 0.9


def batched_tokens(ask: Ask, layout: Layout, gpu: Gpu | None, context: int) -> int:
    """`--max-num-batched-tokens`: the user's, else the API server's default; without a GPU, that of an H100."""
    if ask.max_num_batched_tokens is not None:
        return ask.max_num_batched_tokens
    if on_cpu(gpu):
        base = 2048 * (ask.tp or 1) * ask.pp
        dense_latent = any(layout.only("latent")) and not is_sparse(layout)
        return max(base, context) if dense_latent else base  # chunked prefill is off with MLA on CPUs
    if release(ask) < _V1:
        return 2048 if context > _CHUNKED_ABOVE else max(2048, context)
    tokens = _batched(ask, gpu)
    if switched_off(ask.arg("enable-chunked-prefill")) or switched_on(ask.arg("no-enable-chunked-prefill")):
        tokens = max(tokens, context)
    return min(tokens, _most_sequences(ask, gpu) * context) if release(ask) >= _CAPPED else tokens


def _batched(ask: Ask, gpu: Gpu | None) -> int:
    if ask.dp > 1 and ask.arg("all2all-backend") in _LOW_LATENCY:
        return 256
    if gpu is None:
        tokens = 8192
    elif gpu.usable_bytes >= 160 * GIB and release(ask) >= _HUGE_TIER:
        tokens = 16384
    else:
        tokens = 8192 if _large(ask, gpu) else 2048
    return 2 * tokens if ask.arg("performance-mode") == "throughput" else tokens


def sequences(ask: Ask, gpu: Gpu | None) -> int:
    """`--max-num-seqs`: the user's, else the API server's default for the GPU's memory."""
    most = _most_sequences(ask, gpu)
    if ask.max_num_seqs is None and ask.max_num_batched_tokens is not None and not on_cpu(gpu):
        return min(most, ask.max_num_batched_tokens)
    return most


def _most_sequences(ask: Ask, gpu: Gpu | None) -> int:
    if ask.max_num_seqs is not None:
        return ask.max_num_seqs
    if on_cpu(gpu):
        return 128 * (ask.tp or 1) * ask.pp
    if release(ask) < _V1:
        return 256
    most = 1024 if gpu is not None and _large(ask, gpu) else 256
    return 2 * most if ask.arg("performance-mode") == "throughput" else most


def _large(ask: Ask, gpu: Gpu) -> bool:
    if gpu.usable_bytes >= 160 * GIB and release(ask) >= _HUGE_TIER:
        return True
    apart = "a100" in gpu.name.lower() and release(ask) >= _A100_APART
    return gpu.usable_bytes >= 70 * GIB and not apart


def graph_sizes(ask: Ask, gpu: Gpu | None, batched: int, drafted: int = 0) -> int:
    """How many batch sizes CUDA graphs are captured for; 0 with `--enforce-eager` and on CPUs."""
    if on_cpu(gpu) or switched_on(ask.arg("enforce-eager")):
        return 0
    given = ask.arg("max-cudagraph-capture-size") or ask.arg("cuda-graph-sizes")
    if given is not None and given.strip().isdecimal():
        largest = int(given)
    else:
        wide = 1024 if (capability(gpu) or (0, 0))[0] == 10 and release(ask) >= _WIDE_GRAPHS else 512
        largest = min(sequences(ask, gpu) * (1 + drafted) * 2, wide)
    largest = min(largest, batched)
    small = sum(size <= largest for size in (1, 2, 4))
    if release(ask) < _STEPS_OF_16:
        return small + largest // 8
    return small + len(range(8, min(largest + 1, 256), 8)) + len(range(256, largest + 1, 16))


def graphs_counted(ask: Ask) -> bool:
    """Whether the memory of CUDA graphs is taken out of the pool before it is sized."""
    return release(ask) >= _GRAPHS_COUNTED
