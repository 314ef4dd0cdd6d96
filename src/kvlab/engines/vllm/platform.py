"""What vLLM chooses by itself on a device: block size, scheduler limits, batches in flight."""

from __future__ import annotations

from kvlab.core.engine import Gpu
from kvlab.core.layout import Layout
from kvlab.core.plan import Ask
from kvlab.core.units import GIB
from kvlab.engines.vllm.dtypes import compressed, is_sparse
from kvlab.engines.vllm.versions import release

CPU = "cpu"
_HOPPER = (9, 0)
_WIDE_HEAD = 256  # widest head of FlashAttention 2 and 3


def on_cpu(gpu: Gpu | None) -> bool:
    """Whether the deployment runs on vLLM's CPU backend."""
    return gpu is not None and gpu.name == CPU


def capability(gpu: Gpu | None) -> tuple[int, int] | None:
    """Compute capability, when a GPU is known."""
    return gpu.compute_capability if gpu is not None else None


def switched_on(value: str | None) -> bool:
    """Whether an engine argument given as FLAG or FLAG=true is on."""
    return value is not None and value.strip().lower() in ("", "1", "true", "yes", "on")


def switched_off(value: str | None) -> bool:
    """Whether an engine argument is given and off."""
    return value is not None and not switched_on(value)


def block_size(ask: Ask, layout: Layout, dtype: str, gpu: Gpu | None) -> int:
    """Tokens of a block: the user's, else the smallest that every chosen attention backend accepts.

    Backends follow vLLM 0.32's priority on NVIDIA GPUs with its usual kernel packages installed; without a GPU the
    rules of compute capability 9.0 hold.
    """
    if ask.block_size is not None:
        return ask.block_size
    latent = any(layout.only("latent"))
    if on_cpu(gpu):
        return 16 if latent and not is_sparse(layout) else 128
    if compressed(layout):
        return 256
    if any(layout.only("indexer")):
        return 64 if latent else 128
    cc = capability(gpu) or _HOPPER
    if latent:
        return _latent_block(cc, dtype)
    return _grouped_block(layout, cc, dtype)


def _latent_block(cc: tuple[int, int], dtype: str) -> int:
    if cc[0] == 10:
        return 32  # FLASHINFER_MLA, TOKENSPEED_MLA
    return 64 if cc[0] == 9 and dtype.startswith("fp8") else 16  # FLASHMLA; FLASH_ATTN_MLA, TRITON_MLA


def _grouped_block(layout: Layout, cc: tuple[int, int], dtype: str) -> int:
    widest = max((row.k_dim for row in layout.rows), default=0)
    if widest <= _WIDE_HEAD or dtype.endswith("per_token_head"):
        return 16
    if cc[0] == 10:
        return 64  # FlashInfer beside Triton for heads wider than 256
    return 64 if cc[0] == 9 and dtype in ("fp8", "fp8_e4m3") else 16  # FlashAttention 4 with fp8


def batched_tokens(ask: Ask, layout: Layout, gpu: Gpu | None, context: int) -> int:
    """`--max-num-batched-tokens`: the user's, else the API server's default for the GPU's memory."""
    if ask.max_num_batched_tokens is not None:
        return ask.max_num_batched_tokens
    if on_cpu(gpu):
        base = 2048 * (ask.tp or 1) * ask.pp
        dense_latent = any(layout.only("latent")) and not is_sparse(layout)
        return max(base, context) if dense_latent else base  # chunked prefill is off with MLA on CPUs
    if gpu is None:
        return 8192
    if gpu.usable_bytes >= 160 * GIB and release(ask) >= (0, 28, 0):
        return 16384
    return 8192 if _large(gpu) else 2048


def sequences(ask: Ask, gpu: Gpu | None) -> int:
    """`--max-num-seqs`: the user's, else the API server's default for the GPU's memory."""
    if ask.max_num_seqs is not None:
        return ask.max_num_seqs
    if on_cpu(gpu):
        return 128 * (ask.tp or 1) * ask.pp
    return 1024 if gpu is not None and _large(gpu) else 256


def _large(gpu: Gpu) -> bool:
    return gpu.usable_bytes >= 70 * GIB and "a100" not in gpu.name.lower()


def in_flight_tokens(ask: Ask, gpu: Gpu | None, batched: int) -> int:
    """Tokens that sliding and chunked layers keep room for beyond their window.

    Since 0.26 every batch that may be scheduled ahead counts: one more than the pipeline stages when scheduling is
    asynchronous (the default on GPUs), as many as the stages otherwise.
    """
    if release(ask) < (0, 26, 0):
        return batched
    asynchronous = not on_cpu(gpu) and not switched_off(ask.arg("async-scheduling"))
    return batched * (ask.pp + 1 if asynchronous else ask.pp)
