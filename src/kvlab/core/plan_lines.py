"""A plan as named lines that can be compared with those of another plan, and a digest of them."""

from __future__ import annotations

import hashlib

import msgspec

from kvlab.core.nameless import nameless
from kvlab.core.plan import Plan

Value = float | int | str | None


class Difference(msgspec.Struct, frozen=True):
    """A named fact that is not what it was. None: it was not there, or not known."""

    name: str
    before: Value
    after: Value


def lines(plan: Plan) -> dict[str, Value]:
    """Every number and word of the plan that bears on the cache: the cost of a token, the ledger, what the pool holds.

    The two ends of an estimate are lines of their own. Reasons and wordings are left out: they change with kvlab alone.
    """
    found: dict[str, Value] = {"rules of": f"{plan.engine.name} {plan.engine.version}", "verdict": plan.verdict.code}
    for name in plan.kv.__struct_fields__:
        found[f"cache {name}"] = getattr(plan.kv, name)
    for at, row in enumerate(plan.layout, 1):
        found[f"layout {at} {row.kind}"] = (
            f"{row.layers} layers, {row.bytes_per_token} bytes a token, {row.bytes_per_sequence} a sequence"
            + (f", window {row.window}" if row.window is not None else "")
        )
    for line in plan.ledger:
        found[f"ledger {line.name}"] = line.bytes
        if line.low != line.high:
            found |= {f"ledger {line.name} at least": line.low, f"ledger {line.name} at most": line.high}
    if plan.capacity is not None:
        for name in plan.capacity.__struct_fields__:
            found[f"capacity {name}"] = getattr(plan.capacity, name)
    for doubt in plan.doubts:
        found[f"doubt {doubt.key}"] = nameless(doubt.text)
    return found


def flags(plan: Plan) -> dict[str, str | None]:
    """The flags of the launch command and its environment, without names of machines; None: a switch."""
    found = {flag.flag: None if flag.value is None else nameless(flag.value) for flag in plan.launch.flags}
    return found | {name: nameless(value) for name, value in plan.launch.env.items()}


def digest(named: dict[str, Value]) -> str:
    """SHA-256 of named lines, whatever their order: equal for two plans exactly when all lines are equal."""
    return hashlib.sha256(msgspec.json.encode(dict(sorted(named.items())))).hexdigest()


def differences(before: dict[str, Value], after: dict[str, Value], prefix: str = "") -> tuple[Difference, ...]:
    """Every line that only one side has, or that the sides state differently, in the order of `before`."""
    return tuple(
        Difference(f"{prefix}{name}", before.get(name), after.get(name))
        for name in dict.fromkeys((*before, *after))
        if (name in before) != (name in after) or before.get(name) != after.get(name)
    )
