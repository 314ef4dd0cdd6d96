"""What SGLang chooses by itself: its share of GPU memory, tokens per prefill step, batches captured, page size.

Source: server_args.py of the releases named beside each rule, and arg_groups/memory_hook.py of 0.5.20 and 0.5.23.
"""

from __future__ import annotations

from kvlab.core.engine import Deployment, Gpu
from kvlab.core.layout import Layout
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.core.units import MIB
from kvlab.engines.sglang.arguments import FRACTION, attention_groups, on, ratio, whole
from kvlab.engines.sglang.dtypes import is_sparse, major
from kvlab.engines.sglang.versions import Release, release

_KI = 1024
_TIERS_SINCE: Release = (0, 4, 8)  # memory tiers with a reserve in place of a table of fractions
_PARTS_SINCE: Release = (0, 5, 3)  # the reserve is a sum of its parts
_PREFILL_GRAPHS_SINCE: Release = (0, 5, 10)  # prefill graphs are on unless something switches them off
_VISION_SINCE: Release = (0, 4, 10)
_VISION_GRAPHS = (
    # Architectures with a vision tower whose prefill is captured all the same, and since when.
    ((0, 5, 16), ("Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration")),
    ((0, 5, 18), ("KimiK25ForConditionalGeneration", "KimiK3ForConditionalGeneration")),
)
_WIDER_SINCE: Release = (0, 5, 20)  # more captured batches and larger prefill steps below 35 Ki MiB
_TRTLLM_SINCE: Release = (0, 5, 7)  # TensorRT-LLM's kernels by default on compute capability 10.x
SPARSE_PAGE_SINCE: Release = (0, 5, 3)  # DeepSeek sparse attention

NVIDIA_SMI_MIB = {
    # memory.total of nvidia-smi, which SGLang reads, where it was seen in public output. It counts what the driver
    # keeps, which usable_bytes does not.
    "t4-16gb": 15360,
    "l4-24gb": 23034,
    "rtx4090-24gb": 24564,
    "a100-40gb": 40960,
    "a100-80gb": 81920,
    "l40s-48gb": 46068,
    "h100-80gb": 81559,
    "h200-141gb": 143771,
    "b200-180gb": 183359,
}
_PAGES = {"flashmla": 64, "trtllm_mla": 64, "trtllm_mha": 64, "cutlass_mla": 128, "fa4": 128}
"""Page sizes that an attention backend forces when none, or one it does not take, is asked for."""
_ROCM = ("gfx942", "gfx950")


def runs_on(gpu: Gpu, ask: Ask) -> bool:
    """Whether SGLang's own checks let it run on the GPU: compute capability 7.5 and above, MI300 and MI350.

    Its backends for other makers size their caches by rules that are not known here.
    """
    if gpu.vendor == "nvidia":
        return gpu.compute_capability is None or gpu.compute_capability >= (7, 5)
    return gpu.vendor == "amd" and gpu.arch in _ROCM


def memory_mib(gpu: Gpu) -> float:
    """The memory that SGLang's defaults are computed from, in MiB."""
    known = NVIDIA_SMI_MIB.get(gpu.name)
    return gpu.usable_bytes / MIB if known is None else known


def default_share(deployment: Deployment) -> float | None:
    """`--mem-fraction-static` as an engine argument, else the default of the release on this GPU; None without one."""
    ask, gpu = deployment.ask, deployment.gpu
    asked = ratio(ask, FRACTION, 1.0)
    if asked is not None or gpu is None:
        return asked
    memory, version = memory_mib(gpu), release(ask)
    if version < _TIERS_SINCE:
        return _tabled(memory, (ask.tp or 1) * ask.pp, version)
    if version < _PARTS_SINCE:
        reserved = _tiered_reserve(memory, (ask.tp or 1) * ask.pp, ask)
    else:
        reserved = _reserve(deployment, memory, version)
    return max(0.001, round((memory - reserved) / memory, 3) * vision_factor(deployment.model, version))


def vision_factor(model: Model, version: Release) -> float:
    """What 0.4.10 and later leave of the default for a model with a vision tower: less for each ViT-L/14 in its size.

    A tower that does not name its layers and width counts as one ViT-L/14 (24 layers of 1,024), as SGLang takes it.
    """
    if model.vision is None or version < _VISION_SINCE:
        return 1.0
    layers, width = model.vision[0] or 24, model.vision[1] or 1024
    towers = layers * width**2 / (24 * 1024**2)
    return 0.95 * max(0.8, min(1.05, 1 - 0.1 * (towers - 1)))


def _tabled(memory: float, ranks: int, version: Release) -> float:
    """0.4.0 to 0.4.7: by the number of ranks; from 0.4.6 on only up to 80 GiB, and more on GPUs above 96 GiB."""
    steps = ((16, 0.79), (8, 0.81), (4, 0.85), (2, 0.87))
    share = next((value for size, value in steps if ranks >= size), 0.88)
    if version < (0, 4, 6):
        return share
    share = share if memory <= 80 * _KI else 0.88
    if version >= (0, 4, 7) and memory > 180_000:
        return 0.79
    if memory > 96 * _KI:
        return min(share + 48 * _KI * (1 - share) / memory, (memory - 18 * _KI) / memory)
    return share


def _tiered_reserve(memory: float, ranks: int, ask: Ask) -> float:
    """MiB left free by 0.4.8 to 0.5.2."""
    if memory < 35 * _KI:
        reserve = (2.8 + ranks / 10) * _KI
    elif memory < 90 * _KI:
        reserve = (9.5 + ranks / 2) * _KI
    elif memory < 160 * _KI:
        reserve = (12 + ranks / 2) * _KI
    else:
        reserve = 32 * _KI
    drafting = ask.arg("speculative-algorithm") is not None
    return reserve + (2 * _KI if drafting else 0) + (4 * _KI if on(ask, "enable-dp-attention") else 0)


def _reserve(deployment: Deployment, memory: float, version: Release) -> float:
    """MiB left free since 0.5.3: activations, CUDA graphs and buffers between ranks."""
    ask = deployment.ask
    batch, step = decode_batch(ask, memory, version), prefill_tokens(ask, memory, version)
    reserve = 512 + 1.5 * max(step, 2048) + (ask.tp or 1) * ask.pp / 8 * _KI + 2 * batch
    groups = attention_groups(ask)
    if groups > 1:
        reserve += batch * groups * (3 if batch <= 300 else 4.5)
    if captures_prefill(deployment):
        latent = any(deployment.layout.only("latent"))
        reserve += 1536 if latent else 8 * _capture_sizes(step)
    if memory > 60 * _KI:
        reserve = max(reserve, 10 * _KI)
    return reserve + _draft_reserve(ask, version)


def _draft_reserve(ask: Ask, version: Release) -> float:
    """MiB for draft models, which 0.5.14 and later leave out."""
    algorithm = (ask.arg("speculative-algorithm") or "").upper()
    if not algorithm or algorithm == "NGRAM" or version >= (0, 5, 14):
        return 0
    return 6 * _KI if algorithm == "STANDALONE" else (4 if version >= (0, 5, 10) else 2) * _KI


def decode_batch(ask: Ask, memory: float, version: Release) -> int:
    """Requests of the largest captured decode batch."""
    asked = whole(ask, "cuda-graph-max-bs") or whole(ask, "cuda-graph-max-bs-decode")
    if asked is not None:
        return asked
    many = (ask.tp or 1) >= 4
    if memory < 20 * _KI:
        batch = 8
    elif memory < 35 * _KI:
        small, large = (48, 160) if version >= _WIDER_SINCE else (24, 80)
        small = 16 if version < (0, 5, 4) else small
        batch = large if many else small
    elif memory < 60 * _KI:
        batch = 160 if many else 32
    elif memory < 160 * _KI:
        batch = 512 if many else 256
    else:
        batch = 512
    limited = version >= _WIDER_SINCE and ask.max_num_seqs is not None
    return min(batch, ask.max_num_seqs or batch) if limited else batch


def prefill_tokens(ask: Ask, memory: float, version: Release) -> int:
    """`--chunked-prefill-size`: tokens of one prefill step."""
    if ask.max_num_batched_tokens is not None:
        return ask.max_num_batched_tokens
    if version < _TIERS_SINCE:
        return 2048 if memory < 25_000 else 8192
    if memory < 20 * _KI:
        return 2048
    if memory < 35 * _KI:
        return 4096 if version >= _WIDER_SINCE else 2048
    if memory < 60 * _KI and version >= _PARTS_SINCE:
        return 4096
    return 8192 if memory < 160 * _KI else 16384


def captures_prefill(deployment: Deployment) -> bool:
    """Whether prefill runs in CUDA graphs, as far as the request and the layout tell."""
    ask, layout, version = deployment.ask, deployment.layout, release(deployment.ask)
    if version < _PREFILL_GRAPHS_SINCE:
        return on(ask, "enable-piecewise-cuda-graph")
    switches = ("disable-piecewise-cuda-graph", "disable-prefill-cuda-graph", "disable-cuda-graph")
    if any(on(ask, switch) for switch in switches) or ask.pp > 1 or ask.arg("dcp-size") is not None:
        return False
    if version < (0, 5, 14) and (on(ask, "enable-dp-attention") or ask.arg("speculative-algorithm") is not None):
        return False
    seeing = {name for since, names in _VISION_GRAPHS if version >= since for name in names}
    if deployment.model.vision is not None and seeing.isdisjoint(deployment.model.architectures):
        return False
    nvidia = deployment.gpu is None or deployment.gpu.vendor in (None, "nvidia")
    delta = any(state.name == "conv" for row in layout.only("state") for state in row.state)
    return nvidia and not (delta and any(layout.only("latent")))  # Kimi's delta attention beside latents


def _capture_sizes(most: int) -> int:
    """How many prefill sizes up to `most` tokens are captured."""
    sizes = (range(4, 33, 4), range(48, 257, 16), range(288, 513, 32), range(576, 1025, 64), range(1280, 4097, 256))
    return sum(size <= most for part in (*sizes, range(4608, most + 1, 512)) for size in part)


def page_size(ask: Ask, layout: Layout, gpu: Gpu | None) -> int:
    """Tokens of a page: the user's, else what the attention backend that SGLang chooses by default needs."""
    backend = ask.arg("attention-backend")
    if is_sparse(layout) and release(ask) >= SPARSE_PAGE_SINCE:
        return 64
    if ask.block_size is not None:
        return ask.block_size
    if backend is not None:
        return _PAGES.get(backend, 1)
    return 64 if _tensorrt(ask, layout, gpu) else 1


def _tensorrt(ask: Ask, layout: Layout, gpu: Gpu | None) -> bool:
    """Whether TensorRT-LLM's kernels are the default: compute capability 10.x, without recurrent layers."""
    return major(gpu) == 10 and release(ask) >= _TRTLLM_SINCE and not any(layout.only("state"))
