"""`--kv-cache-dtype`: which words a release accepts, and the bytes that each keeps per token."""

from __future__ import annotations

from kvlab.core.errors import BadInput, nearest, shortened
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.core.units import ceil_div
from kvlab.engines.vllm.versions import Release

# The first release that was seen to accept each word, read from vllm/config/cache.py of the releases named here.
_SINCE: tuple[tuple[Release, tuple[str, ...]], ...] = (
    ((0, 0, 0), ("auto", "fp8", "fp8_e4m3", "fp8_e5m2")),
    ((0, 10, 0), ("fp8_inc",)),
    ((0, 11, 0), ("bfloat16",)),
    ((0, 11, 2), ("fp8_ds_mla",)),
    ((0, 18, 1), ("float16",)),
    ((0, 20, 2), ("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc")),
    ((0, 20, 2), ("int8_per_token_head", "fp8_per_token_head", "nvfp4")),
    ((0, 25, 1), ("int4_per_token_head",)),
    ((0, 28, 0), ("nvfp4_4over6",)),
    ((0, 30, 0), ("nvfp4_ds_mla",)),
    ((0, 32, 0), ("ultraquant_4bit",)),
)
_PLAIN = ("float32", "float16", "bfloat16")
_DENSE_LATENT = ("float32", "float16", "bfloat16", "fp8", "fp8_e4m3")
_SPARSE_LATENT = ("float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_ds_mla", "nvfp4_ds_mla")
_CPU = ("float32", "float16", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2")
# vLLM gives these architectures an fp8 cache on compute capability 10.x when the dtype is auto, since 0.30.
_FP8_ON_SM100 = ("glm_moe_dsa",)
_COMPRESSED = 584  # an entry of DeepSeek V4: 448 fp8 values, 64 bf16 rotary values, 8 bytes of scales
_BF16_SINCE = (8, 0)  # compute capability
# Architectures that vLLM refuses to compute in float16 (vllm/config/model.py).
_NOT_HALF = ("gemma2", "gemma3", "gemma3_text", "plamo2", "glm4")
INDEXER_BLOCK = 128  # values of an indexer key that share one fp32 scale


def accepted(release: Release) -> tuple[str, ...]:
    """Words that `--kv-cache-dtype` of this release takes, on NVIDIA GPUs and CPUs."""
    return tuple(word for since, words in _SINCE if release >= since for word in words)


def is_sparse(layout: Layout) -> bool:
    """Whether latent layers are read through an indexer (sparse MLA)."""
    return any(layout.only("latent")) and any(layout.only("indexer"))


def resolve(
    model: Model, layout: Layout, asked: str | None, release: Release, capability: tuple[int, int] | None
) -> str:
    """The format that vLLM stores: "auto" becomes the checkpoint's own cache format, else the compute dtype.

    Raises BadInput naming what the release accepts. A float32 checkpoint is computed, and cached, in bfloat16.
    """
    word = asked or "auto"
    if word not in accepted(release):
        known = accepted(release)
        raise BadInput(
            f"vLLM {'.'.join(map(str, release))} has no --kv-cache-dtype {shortened(word)!r}; {nearest(word, known)}"
            f" ({len(known)} words are accepted)"
        )
    if compressed(layout):
        return _compressed(word)
    if word == "auto":
        word = _auto(model, release, capability)
    if is_sparse(layout):
        word = _sparse(word, release, capability)
    return word


def compressed(layout: Layout) -> bool:
    """Whether latents are compressed over several tokens (DeepSeek V4)."""
    return any(row.pool > 1 for row in layout.only("latent"))


def _compressed(word: str) -> str:
    """Kernels of DeepSeek V4 store fp8 alone. Only an explicit fp8_ds_mla packs the windowed layers as well."""
    if word != "auto" and not word.startswith("fp8"):
        raise BadInput(f"vLLM keeps compressed latents in fp8 only, not in --kv-cache-dtype {word}; use auto or fp8")
    return word if word == "fp8_ds_mla" else "fp8"


def _auto(model: Model, release: Release, capability: tuple[int, int] | None) -> str:
    if model.kv_cache_format in accepted(release):
        return model.kv_cache_format or "auto"
    if model.model_type in _FP8_ON_SM100 and release >= (0, 30, 0) and capability and capability[0] == 10:
        return "fp8_e4m3"
    return "float16" if model.dtype == "float16" else without_bfloat16(model, capability) or "bfloat16"


def without_bfloat16(model: Model, capability: tuple[int, int] | None) -> str | None:
    """What vLLM computes in by itself on a GPU without bfloat16; None where the GPU has it, or is not known."""
    if capability is None or capability >= _BF16_SINCE:
        return None
    return "float32" if model.model_type in _NOT_HALF else "float16"


def unknown_format(model: Model, asked: str | None, release: Release) -> str | None:
    """What to say of a checkpoint's own cache format that this release does not take, or that gives way to `asked`."""
    own = model.kv_cache_format
    if own is None or asked not in (None, "auto") or own in accepted(release):
        return None
    return f"the checkpoint asks for a cache in {shortened(own)}, which this release does not take; planned without it"


def _sparse(word: str, release: Release, capability: tuple[int, int] | None) -> str:
    """Kernels of sparse MLA choose the row format: FLASHMLA_SPARSE keeps fp8 as fp8_ds_mla."""
    major = capability[0] if capability else 9
    if word.startswith("fp8") and (release < (0, 14, 0) or (word == "fp8" and major != 10)):
        return "fp8_ds_mla"
    if word in _PLAIN and major == 12 and release >= (0, 30, 0):
        return "fp8_ds_mla"
    return word


def check_supported(layout: Layout, dtype: str, capability: tuple[int, int] | None, cpu: bool) -> None:
    """Raises BadInput when no attention backend of vLLM takes `dtype` for these layers on this device."""
    words: tuple[str, ...] | None = None
    where = "this model"
    if any(layout.only("latent")) and not compressed(layout):
        words, where = _DENSE_LATENT, "latent attention (MLA)"
        if is_sparse(layout):
            words, where = _SPARSE_LATENT, "sparse latent attention (MLA with an indexer)"
        if capability and capability < (8, 9):
            words = tuple(word for word in words if word in _PLAIN)
            where += f" on compute capability {capability[0]}.{capability[1]}"
        elif is_sparse(layout) and _unrotated(layout):
            words = _PLAIN if capability is None or capability[0] == 9 else (*_PLAIN, "fp8", "fp8_e4m3")
    if cpu:
        words, where = _CPU, "CPUs"
    if words is not None and dtype not in words:
        raise BadInput(f"vLLM has no attention backend for {where} with --kv-cache-dtype {dtype}; use {_offer(words)}")


def check_latent(layout: Layout, dtype: str) -> None:
    """Raises BadInput when no kernel of latent attention takes `dtype`, whatever the GPU."""
    if any(layout.only("latent")) and dtype not in {*_DENSE_LATENT, *_SPARSE_LATENT}:
        raise BadInput(f"vLLM keeps no latents in --kv-cache-dtype {dtype}; use {_offer(_DENSE_LATENT)}")


def _unrotated(layout: Layout) -> bool:
    """Whether latents come without rotary values, which fp8_ds_mla and its kernels need."""
    return any(row.k_dim == 512 for row in layout.only("latent"))


def _offer(words: tuple[str, ...]) -> str:
    return ", ".join(("auto", *(word for word in words if word != "float32")))


def row_bytes(row: Row, dtype: str, tp: int, beside_latent: bool) -> int:
    """Bytes that one token adds in one layer of `row` on one rank: its part of an entry."""
    return ceil_div(entry_bytes(row, dtype, tp, beside_latent), row.pool)


def entry_bytes(row: Row, dtype: str, tp: int, beside_latent: bool) -> int:
    """Bytes of one cached entry in one layer of `row` on one rank, scales included; an entry holds `row.pool` tokens.

    `beside_latent`: the layout has latent layers, whose indexer keeps its own fp8 format whatever the cache dtype.
    """
    if row.kind == "state":
        return 0
    if row.kind == "latent":
        packed = row.pool > 1 or (row.window and dtype == "fp8_ds_mla")
        return _COMPRESSED if packed else _latent_bytes(dtype, row.k_dim)
    if row.kind == "indexer":
        return row.k_dim + 4 * (row.k_dim // INDEXER_BLOCK) if beside_latent else _width(dtype) * row.k_dim
    return row.heads_on(tp) * _head_bytes(dtype, row.k_dim, row.v_dim)


def _width(dtype: str) -> int:
    return 4 if dtype == "float32" else 2


def _head_bytes(dtype: str, k: int, v: int) -> int:
    """Bytes of one token and one KV head, as the layouts of vllm/v1/attention/backends lay them out."""
    values = k + v
    if dtype in _PLAIN:
        return _width(dtype) * values
    if k != v:
        return values  # FLASH_ATTN_DIFFKV: one byte a value, no scales inside the cache
    if dtype in ("int8_per_token_head", "fp8_per_token_head"):
        return values + 8  # one fp32 scale for the key and one for the value
    if dtype == "int4_per_token_head":
        return values // 2 + 8
    if dtype in ("nvfp4", "nvfp4_4over6"):
        return values // 2 + values // 16  # an fp8 scale for every 16 values
    if dtype == "ultraquant_4bit":
        return values // 2 + values // 32
    if dtype in TURBOQUANT:
        return TURBOQUANT[dtype](k)
    return values


def _even(amount: int) -> int:
    return amount + amount % 2


# Packed codes, then norms and scales in fp16, keys before values.
TURBOQUANT = {
    "turboquant_k8v4": lambda d: _even(d + ceil_div(d, 2) + 4),
    "turboquant_4bit_nc": lambda d: _even(ceil_div(d, 2) + 2 + ceil_div(d, 2) + 4),
    "turboquant_k3v4_nc": lambda d: _even(ceil_div(3 * d, 8) + 2 + ceil_div(d, 2) + 4),
    "turboquant_3bit_nc": lambda d: _even(2 * ceil_div(3 * d, 8) + 6),
}


def _latent_bytes(dtype: str, k: int) -> int:
    if dtype == "fp8_ds_mla":
        return 656  # 512 fp8 values, 4 fp32 scales, 64 bf16 rotary values
    if dtype == "nvfp4_ds_mla":
        return 352
    return _width(dtype) * k if dtype in _PLAIN else k
