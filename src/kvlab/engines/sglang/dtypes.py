"""`--kv-cache-dtype`: which words a release accepts, and the bytes that each keeps per token.

Formulas: pool_configurator.py, kv_cache_configurator.py and fp4_kv_cache_quant_method.py of 0.5.23,
model_runner_kv_cache_mixin.py of 0.5.8 to 0.5.10, model_runner.py of 0.4.6 and 0.5.6.
"""

from __future__ import annotations

from kvlab.core.engine import Gpu
from kvlab.core.errors import BadInput, nearest, shortened
from kvlab.core.layout import Layout, Row
from kvlab.core.model import Model
from kvlab.engines.sglang.versions import Release

_FOREVER: Release = (1 << 62, 0, 0)
# word, the first release that takes it, the first that no longer does (argparse choices of the releases named above).
_WORDS: tuple[tuple[str, Release, Release], ...] = (
    ("auto", (0, 0, 0), _FOREVER),
    ("fp8_e5m2", (0, 0, 0), _FOREVER),
    ("fp8_e4m3", (0, 4, 2), _FOREVER),
    ("bf16", (0, 5, 4), _FOREVER),
    ("bfloat16", (0, 5, 4), _FOREVER),
    ("fp4_e2m1", (0, 5, 5), (0, 5, 23)),
    ("mxfp8", (0, 5, 16), _FOREVER),
    ("nvfp4", (0, 5, 16), _FOREVER),
    ("fp4_mx_block16", (0, 5, 16), _FOREVER),
)
_PLAIN = ("float16", "bfloat16")
_FP4 = ("fp4_e2m1", "nvfp4", "fp4_mx_block16")
_SCALED = 16  # fp4 values that share one scale
_MX = 32  # mxfp8 values that share one scale
_SPARSE = ("bfloat16", "fp8_e4m3")
_SPARSE_TYPES = ("deepseek_v32", "glm_moe_dsa")
_PACKED_LATENT = 656  # 512 fp8 values, 4 fp32 scales, 64 bf16 rotary values (0.5.9 on)
_PACKED_SINCE: Release = (0, 5, 9)
_INDEX_SCALED = 128  # values of an indexer key that share one fp32 scale


def accepted(release: Release) -> tuple[str, ...]:
    """Words that `--kv-cache-dtype` of this release takes."""
    return tuple(word for word, since, until in _WORDS if since <= release < until)


def plain(model: Model) -> str:
    """The dtype that `--dtype auto` computes in: float32 and float16 checkpoints in float16, the others in bfloat16."""
    return "float16" if model.dtype in ("float16", "float32", "float") else "bfloat16"


def is_sparse(layout: Layout) -> bool:
    """Whether latent layers are read through an indexer (DeepSeek sparse attention)."""
    return any(layout.only("latent")) and any(layout.only("indexer"))


def is_sparse_model(model: Model, layout: Layout) -> bool:
    """As is_sparse, also for a part of such a model's layout."""
    return is_sparse(layout) or model.model_type in _SPARSE_TYPES


def resolve(model: Model, layout: Layout, asked: str | None, release: Release, gpu: Gpu | None) -> str:
    """The format that SGLang stores: "auto" becomes the checkpoint's own fp8, else the compute dtype.

    Raises BadInput naming what the release accepts.
    """
    word = asked or "auto"
    known = accepted(release)
    if word not in (*known, plain(model)):
        raise BadInput(
            f"SGLang {'.'.join(map(str, release))} has no --kv-cache-dtype {shortened(word)!r}; {nearest(word, known)}"
            f" ({len(known)} words are accepted)"
        )
    if word == "auto":
        word = _auto(model, layout, gpu)
    word = "bfloat16" if word == "bf16" else word
    _check(layout, word)
    return word


def _auto(model: Model, layout: Layout, gpu: Gpu | None) -> str:
    if is_sparse(layout):
        # DeepSeek sparse attention: fp8 on compute capability 10 and above, whatever the checkpoint says.
        return "fp8_e4m3" if (major(gpu) or 9) >= 10 else "bfloat16"
    if model.kv_cache_format is not None and model.kv_cache_format.startswith("fp8"):
        return "fp8_e4m3"
    return plain(model)


def major(gpu: Gpu | None) -> int | None:
    """First digit of the compute capability, when a GPU that has one is known."""
    return gpu.compute_capability[0] if gpu is not None and gpu.compute_capability is not None else None


def _check(layout: Layout, word: str) -> None:
    """Raises BadInput for a format that SGLang refuses, or whose layout for such layers is not known here."""
    if is_sparse(layout) and word not in _SPARSE:
        raise BadInput(f"SGLang keeps DeepSeek sparse attention in bfloat16 or fp8_e4m3, not in {word}")
    if word == "mxfp8" and any(layout.only("latent")):
        raise BadInput("how SGLang scales latents (MLA) in mxfp8 is not known here; use fp8_e4m3")


def layer_bytes(row: Row, word: str, tp: int, packed: bool) -> int:
    """Bytes that one token adds in one layer of `row` on one of `tp` attention ranks, scales included.

    `packed`: fp8 latents carry their scales (sparse attention). mxfp8 is exact for all layers together only.
    """
    if row.kind == "state":
        return 0
    if row.kind == "indexer":
        return row.k_dim + 4 * (row.k_dim // _INDEX_SCALED)  # fp8 keys whatever the cache dtype
    if row.kind == "latent":
        return _latent(word, row.k_dim, packed)
    heads = row.heads_on(tp)
    values = heads * (row.k_dim + row.v_dim)
    if word == "fp4_e2m1":
        return heads * row.k_dim + heads * 2 * row.k_dim // _SCALED
    if word in _FP4:
        return heads * (row.k_dim // 2) * 2 + heads * (row.k_dim // _SCALED) * 2
    if word == "mxfp8":
        return values + values // _MX
    return values * (2 if word in _PLAIN else 1)


def _latent(word: str, values: int, packed: bool) -> int:
    if word in _PLAIN:
        return 2 * values
    if word in _FP4:
        return values // 2 + values // _SCALED
    return _PACKED_LATENT if packed else values


def packed(model: Model, layout: Layout, word: str, release: Release, gpu: Gpu | None) -> bool:
    """Whether fp8 latents are stored with their scales: sparse attention outside TensorRT-LLM's kernels."""
    raw = (major(gpu) or 9) >= 10  # these kernels are the default there, and read bare fp8 rows
    return is_sparse_model(model, layout) and word == "fp8_e4m3" and release >= _PACKED_SINCE and not raw
