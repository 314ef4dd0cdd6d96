"""The numbers that SGLang's start-up log states if a plan is right."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from kvlab.core.engine import Deployment
from kvlab.core.layout import Row
from kvlab.core.plan import Expected
from kvlab.core.units import GIB, HALF_DIGIT
from kvlab.engines.sglang.arguments import whole
from kvlab.engines.sglang.dtypes import layer_bytes
from kvlab.engines.sglang.parallel import attention_ranks, stages_of
from kvlab.engines.sglang.pools import Pools, Sizes, row_layers, running_limit
from kvlab.engines.sglang.states import slot_bytes, slots_per_request
from kvlab.engines.sglang.versions import Release, release

_PLAIN = ("float16", "bfloat16", "fp8_e4m3", "fp8_e5m2")
"""Formats of which the printed sizes are the products of tokens, heads and bytes alone."""
TORCH = {
    # What the log calls each format.
    "bfloat16": ("bfloat16",),
    "float16": ("float16",),
    "fp8_e4m3": ("float8_e4m3fn", "float8_e4m3fnuz"),
    "fp8_e5m2": ("float8_e5m2", "float8_e5m2fnuz"),
    "mxfp8": ("float8_e4m3fn", "float8_e4m3fnuz"),
    "fp4_e2m1": ("float4_e2m1fn_x2",),
    "nvfp4": ("float4_e2m1fn_x2",),
    "fp4_mx_block16": ("float4_e2m1fn_x2",),
}
_DTYPE_SINCE: Release = (0, 5, 3)
Kind = Literal["computed", "estimated"]


def expects(deployment: Deployment, pools: Pools, sizes: Sizes, context: int) -> tuple[Expected, ...]:
    """Rows under the names that the log reader uses, on one rank."""
    ask = deployment.ask
    limit = whole(ask, "max-total-tokens")
    exact = ask.pool_gib is not None or (limit is not None and sizes.tokens == limit)
    kind: Kind = "computed" if exact else "estimated"
    rows = [_count("kv_tokens", sizes.tokens, "tokens", kind, "what the pool holds, in whole pages")]
    if sizes.window_tokens is not None:
        because = f"the window pool has {pools.ratio:g} tokens for each of the full pool"
        rows.append(_count("kv_window_tokens", sizes.window_tokens, "tokens", kind, because))
    if sizes.slots is not None:
        rows += _states(deployment, sizes, kind)
    if ask.pp == 1 and pools.dtype in _PLAIN:
        rows += _pool_bytes(deployment, pools, sizes, kind)
        if pools.draft:
            because = "draft layers keep as many tokens in a pool of their own"
            rows.append(_bytes("draft_kv_bytes", (sizes.tokens + pools.page) * pools.draft, kind, because))
    per_request = slots_per_request(deployment.model, ask) if pools.slot else 0
    running = running_limit(sizes, ask, context, per_request)
    rows.append(_count("max_running_requests", running, "requests", kind, "the scheduler's limit, and what fits"))
    rows.append(_count("context_len", context, "tokens", "computed", "--context-length"))
    return (*rows, *_dtype(deployment, pools))


def _dtype(deployment: Deployment, pools: Pools) -> tuple[Expected, ...]:
    """The format that the cache is allocated in, in torch's word."""
    if release(deployment.ask) < _DTYPE_SINCE:
        return ()
    word, *also = TORCH[pools.dtype]
    because = f"--kv-cache-dtype {deployment.ask.kv_dtype or 'auto'}"
    return (
        Expected(
            name="kv_cache_dtype",
            value=word,
            unit="word",
            kind="computed",
            tolerance=0,
            because=because,
            also=tuple(also),
        ),
    )


def _states(deployment: Deployment, sizes: Sizes, kind: Kind) -> list[Expected]:
    """Slots, and the tensors that hold them: one slot more than is counted."""
    conv, ssm = slot_bytes(deployment.layout, deployment.ask)
    rows = [_count("kv_state_slots", sizes.slots or 0, "slots", kind, "states that the pool keeps")]
    if deployment.ask.pp > 1:
        return rows
    for name, size in (("kv_conv_bytes", conv), ("kv_ssm_bytes", ssm)):
        rows.append(_bytes(name, ((sizes.slots or 0) + 1) * size, kind, "one state in every slot, and a spare slot"))
    return rows


def _pool_bytes(deployment: Deployment, pools: Pools, sizes: Sizes, kind: Kind) -> list[Expected]:
    """The printed size of the cache: keys and values apart, latents together, both pools of a split in one line.

    For one pipeline stage only: of several each prints its own.
    """
    layout, ask = deployment.layout, deployment.ask
    held = sizes.tokens + pools.page  # one page more than is counted
    if sizes.window_tokens is not None:
        total = (sizes.window_tokens + pools.page) * pools.window + (held * pools.full if pools.full else 0)
        return [_bytes("kv_bytes", total, kind, "both pools, with a spare page each")]
    if any(layout.only("latent")):
        return [_bytes("kv_bytes", held * pools.full, kind, f"{held:,} rows of {pools.full:,} bytes")]
    rows, ranks = [], attention_ranks(ask)
    (stage,) = stages_of(deployment.model, layout, ask)
    for name, keys in (("kv_k_bytes", True), ("kv_v_bytes", False)):
        size = sum(
            row_layers(row, layout, ask, stage) * layer_bytes(_half(row, keys), pools.dtype, ranks, False)
            for row in layout.rows
        )
        rows.append(_bytes(name, held * size, kind, f"{held:,} rows of {size:,} bytes"))
    return rows


def _half(row: Row, keys: bool) -> Row:
    """The keys of a row alone, or its values."""
    return replace(row, v_dim=0) if keys else replace(row, k_dim=0)


def _bytes(name: str, value: float, kind: Kind, because: str) -> Expected:
    return Expected(name=name, value=value, unit="bytes", kind=kind, tolerance=HALF_DIGIT * GIB, because=because)


def _count(name: str, value: int, unit: str, kind: Kind, because: str) -> Expected:
    return Expected(name=name, value=value, unit=unit, kind=kind, tolerance=0.5, because=because)
