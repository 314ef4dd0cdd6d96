"""What vLLM chooses by itself on a device: block size, batches in flight; and which devices it runs on."""

from __future__ import annotations

from kvlab.core.engine import Gpu
from kvlab.core.layout import Layout
from kvlab.core.plan import Ask
from kvlab.engines.vllm.dtypes import compressed, is_sparse
from kvlab.engines.vllm.versions import release

CPU = "cpu"
_HOPPER = (9, 0)
_ROCM = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1101", "gfx1150", "gfx1151", "gfx1200", "gfx1201")
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


def runs_on(gpu: Gpu, ask: Ask) -> bool:
    """Whether vLLM's installation guide lists the GPU: https://docs.vllm.ai/en/v0.31.0/getting_started/installation/gpu/

    Its plugins for Apple and Gaudi are other engines with other caches.
    """
    if gpu.vendor == "nvidia":
        # The guide of 0.14 says 7.0, that of 0.31 says 7.5.
        least = (7, 5) if release(ask) >= (0, 31) else (7, 0)
        return gpu.compute_capability is None or gpu.compute_capability >= least
    if gpu.vendor == "amd":
        return gpu.arch in _ROCM
    return gpu.vendor == "intel" and "gaudi" not in gpu.name


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


def device_block(gpu: Gpu | None) -> int:
    """Tokens of which the blocks beside gated DeltaNet's states are a multiple: 64 on Intel GPUs (platforms/xpu.py)."""
    return 64 if gpu is not None and gpu.vendor == "intel" else 1


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


def in_flight_tokens(ask: Ask, gpu: Gpu | None, batched: int) -> int:
    """Tokens that sliding and chunked layers keep room for beyond their window.

    Since 0.26 every batch that may be scheduled ahead counts: one more than the pipeline stages when scheduling is
    asynchronous (the default on GPUs), as many as the stages otherwise.
    """
    if release(ask) < (0, 26, 0):
        return batched
    asynchronous = not on_cpu(gpu) and not switched_off(ask.arg("async-scheduling"))
    return batched * (ask.pp + 1 if asynchronous else ask.pp)
