"""--quant-policy: what each policy stores per token and KV head, and which engine and release has it."""

from __future__ import annotations

import msgspec

from kvlab.core.errors import BadInput, nearest
from kvlab.core.layout import Row
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.engines.lmdeploy.arguments import Backend
from kvlab.engines.lmdeploy.versions import EIGHT_BIT_FLOATS, release


class Policy(msgspec.Struct, frozen=True):
    """A quant policy: bits of a key's and of a value's numbers, and the scales beside each."""

    name: str
    number: int
    key_bits: int
    value_bits: int
    key_scales: int = 0
    """Numbers of the model's dtype per token and KV head: scale and zero point."""
    value_scales: int = 0


_PLAIN = 16
_POLICIES = {
    policy.name: policy
    for policy in (
        Policy("bfloat16", 0, _PLAIN, _PLAIN),
        Policy("float16", 0, _PLAIN, _PLAIN),
        Policy("int4", 4, 4, 4, 2, 2),
        Policy("int8", 8, 8, 8, 2, 2),
        Policy("fp8", 16, 8, 8),  # e4m3, one scale per tensor
        Policy("fp8_e5m2", 17, 8, 8),
        Policy("turbo_quant", 42, 4, 2, 2, 1),
    )
}
_SAME = {"fp8_e4m3": "fp8"} | {str(p.number): p.name for p in _POLICIES.values() if p.number}
OFFERED = ("bfloat16", "int8", "int4", "fp8")


def resolve(model: Model, ask: Ask, engine: Backend) -> Policy:
    """The policy of the asked word, by name or number; "auto", "none" and 0 are the model's own dtype.

    Raises BadInput for a word that LMDeploy, this engine or this release does not have.
    """
    own = "float16" if model.dtype in ("float16", "float32") else "bfloat16"
    word = ask.kv_dtype or "auto"
    word = own if word in ("auto", "none", "0") else _SAME.get(word, word)
    policy = _POLICIES.get(word)
    if policy is None:
        raise BadInput(f"LMDeploy has no quant policy {word!r}; {nearest(word, ('none', *_POLICIES))}")
    if not policy.number and word != own:
        raise BadInput(f"LMDeploy caches {model.name} in {own}, the dtype it computes in, not in {word}; use auto")
    if policy.number > 8 and engine == "turbomind":
        raise BadInput(f"TurboMind caches in int8 or int4 only, not in {word}; add --engine-arg backend=pytorch")
    if policy.number > 8 and release(ask) < EIGHT_BIT_FLOATS:
        raise BadInput(f"whether LMDeploy {ask.engine_version} has a {word} cache is not known here; 0.18 has")
    return policy


def policy(name: str) -> Policy:
    """The policy of a resolved name."""
    return _POLICIES[name]


_SPARSE_FP8 = 656
"""512 fp8 values, 4 fp32 scales, 64 bf16 rotary values."""
_INDEX_SCALE = 4
"""An indexer key is kept in fp8 beside one fp32 scale, whatever the policy."""


def parts(row: Row, stored: Policy, tp: int, *, sparse: bool) -> tuple[int, ...]:
    """Bytes of one token in one layer of `row` on one rank: keys, values, and the scales of each.

    `sparse`: latents are read through an indexer, which has an fp8 layout of its own. Source of the shapes:
    lmdeploy/pytorch/engine/cache_engine/schema.py of 0.18.0. Scales are two bytes each.
    """
    if row.kind == "indexer":
        return (row.k_dim + _INDEX_SCALE,)
    if sparse and stored.name == "fp8":
        return (_SPARSE_FP8,)
    heads = row.heads_on(tp)
    sizes = (
        heads * row.k_dim * stored.key_bits // 8,
        heads * row.v_dim * stored.value_bits // 8,
        heads * stored.key_scales * 2,
        heads * stored.value_scales * 2,
    )
    return tuple(size for size in sizes if size)
