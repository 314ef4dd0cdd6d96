"""Recurrent state in vLLM: its bytes, its blocks per request, and the block size that attention takes from it."""

from __future__ import annotations

from math import lcm

from kvlab.core.engine import Gpu
from kvlab.core.errors import BadInput
from kvlab.core.layout import Layout, Row, State
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.core.units import ceil_div
from kvlab.engines.vllm.platform import capability, on_cpu, switched_off, switched_on
from kvlab.engines.vllm.versions import Release, release

_WIDTH = {"float32": 4, "float": 4, "float16": 2, "half": 2, "bfloat16": 2}
_INDEX_ENTRIES = 32  # entries of the smallest page of an indexer's kernel
_LATENT_BLOCK = 128  # MLA kernels beside recurrent layers
# Model types whose state vLLM keeps in float32 when neither the config nor a flag says otherwise.
_FLOAT32_STATE = ("nemotron_h", "kimi_linear", "glm5_next_text")
# Recurrent layers that keep one more state per request as a prefill checkpoint, and the release that began it.
_MAMBA2 = ("nemotron_h", "mamba2", "bamba", "granitemoehybrid", "falcon_h1", "zamba2")
_MAMBA2_SINCE = (0, 32, 0)
_EVERY_BLOCK = (*_MAMBA2, "mamba", "falcon_mamba", "jamba")  # can keep a state in every block
_ALIGNED_SINCE = (0, 28, 0)
_SCAN_CHUNK = 2048  # ModelConfig.get_mamba_chunk_size without a key
_FLASH_KDA = (
    "KimiK3ForConditionalGeneration",
    "KimiK3ForCausalLM",
    "Glm5NextForConditionalGeneration",
)  # its kernels need compute capability 9.0
_FLASH_KDA_SINCE = (0, 29, 0)


def state_bytes(row: Row, model: Model, ask: Ask, tp: int, drafted: int) -> int:
    """Bytes of one sequence's state in one layer on one rank; convolutions keep the `drafted` tokens too."""
    plain = "float16" if model.dtype == "float16" else "bfloat16"
    general = _asked(ask, "mamba-cache-dtype") or plain
    recurrent = _asked(ask, "mamba-ssm-cache-dtype")
    total = 0
    for state in row.state:
        if state.name in ("conv", "linear"):
            dtype = general
        else:
            kept = "float32" if model.model_type in _FLOAT32_STATE else None
            dtype = recurrent or state.dtype or kept or general
        values = _values(state, tp)
        values = values // state.taps * (state.taps + drafted) if state.taps else values
        total += values // tp * _width(dtype)
    return total


def _values(state: State, tp: int) -> int:
    """Values on all ranks together; a group that cannot be split is copied to each. Raises BadInput on several."""
    if state.groups is None or state.groups % tp == 0:
        return state.values
    if state.groups > 1:
        raise BadInput(f"vLLM cannot split {state.groups} groups of a recurrent state over --tp {tp}")
    return state.values + (tp - 1) * state.group_values


def _width(dtype: str) -> int:
    """Bytes of one value. Raises BadInput for a dtype of which vLLM keeps no state."""
    if dtype not in _WIDTH:
        raise BadInput(f"vLLM keeps no recurrent state in {dtype!r}; give --engine-arg mamba-ssm-cache-dtype=float32")
    return _WIDTH[dtype]


def _asked(ask: Ask, flag: str) -> str | None:
    value = ask.arg(flag)
    if value not in (None, "auto", *_WIDTH):
        raise BadInput(f"--engine-arg {flag}={value}: vLLM takes auto, float32, float16 or bfloat16")
    return None if value == "auto" else value


def cache_mode(ask: Ask, model: Model) -> str:
    """How states are kept: the running one ("none"), also those at block ends ("align"), or every block's ("all").

    Prefix caching of hybrids is the default since 0.28 and decides between align and none from 0.32 on. Before 0.28 it
    meant "all" for Mamba layers, unless another mode was asked for (vllm/model_executor/models/config.py).
    """
    version = release(ask)
    cached = ask.prefix_caching
    if cached is None:
        if switched_on(ask.arg("enable-prefix-caching")):
            cached = True
        elif switched_on(ask.arg("no-enable-prefix-caching")) or switched_off(ask.arg("enable-prefix-caching")):
            cached = False
    if cached is None:
        cached = version >= (0, 28, 0)
    if not cached or version < (0, 15, 0):
        return "none"
    asked = ask.mamba_cache_mode if ask.mamba_cache_mode != "none" else None
    default = "all" if version < _ALIGNED_SINCE else "align"
    every = model.model_type in _EVERY_BLOCK and version < (0, 32, 0)
    return "all" if every and (asked or default) == "all" else "align"


def request_blocks(model: Model, ask: Ask, gpu: Gpu | None, drafted: int) -> int | None:
    """State blocks of one request in each group; None when every block of tokens keeps a state (mode "all").

    Each drafted token keeps a state of its own until it is accepted.
    """
    mode = cache_mode(ask, model)
    if mode == "all":
        return None
    if mode == "none":
        return 1 + drafted
    return (3 if _checkpoints(model, release(ask), gpu) else 2) + drafted


def _checkpoints(model: Model, version: Release, gpu: Gpu | None) -> bool:
    if model.model_type in _MAMBA2:
        return version >= _MAMBA2_SINCE
    fast = not on_cpu(gpu) and (capability(gpu) or (9, 0)) >= (9, 0)
    return fast and version >= _FLASH_KDA_SINCE and any(name in _FLASH_KDA for name in model.architectures)


def kernel_step(model: Model, ask: Ask) -> int:
    """Tokens of which blocks are a multiple where each keeps a state: what the Mamba kernel scans at a time."""
    return (model.scan_chunk or _SCAN_CHUNK) if cache_mode(ask, model) == "all" else 1


def aligned_block(layout: Layout, block: int, token_bytes: int, state: int, chunk: int = 1) -> int:
    """Tokens of an attention block that is at least as large as one layer's state.

    `token_bytes` is one attention layer's; blocks grow in steps of the kernels' block sizes, `chunk` among them.
    """
    step = max(block, _LATENT_BLOCK) if any(layout.only("latent")) else block
    step = lcm(step, chunk, *(_INDEX_ENTRIES * row.pool for row in layout.only("indexer")))
    return max(block, step * ceil_div(state, step * token_bytes))
