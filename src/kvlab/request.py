"""A request made whole before anything is planned: numbers in range, GPUs split, nothing dropped, nothing secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from kvlab.core.budget import held_by_others
from kvlab.core.config import MOST_TOKENS
from kvlab.core.engine import Gpu, Planner
from kvlab.core.errors import BadInput, nearest, shortened
from kvlab.core.plan import Ask
from kvlab.core.sizing import Search
from kvlab.core.units import gib

T = TypeVar("T", bound=msgspec.Struct)

OWN_OPTIONS = frozenset(
    {
        *("tp", "pp", "dp", "dcp", "ep", "util", "block_size", "max_num_batched_tokens", "max_num_seqs"),
        *("prefix_caching", "mamba_cache_mode"),
        *("kv_dtype_k", "kv_dtype_v", "parallel", "kv_unified", "swa_full", "ubatch"),
    }
)
"""Fields of Ask that some engines have and others do not."""
_NOTHING_ASKED = Ask()
_SECRETS = ("api-key", "hf-token", "token")
"""Flags whose values must not reach a plan, a record or a report."""
_RANKS, _TOKENS = 1 << 16, MOST_TOKENS
_MOST = {
    **dict.fromkeys(("tp", "pp", "dp", "dcp", "ep", "gpus"), _RANKS),
    **dict.fromkeys(("users", "parallel", "context", "max_num_batched_tokens", "max_num_seqs"), _TOKENS),
    **dict.fromkeys(("block_size", "ubatch"), 1 << 24),
}
"""Counts, and bounds far above any deployment: a larger number is a typing error."""


def requested(options: Mapping[str, object]) -> tuple[Ask, Search]:
    """The request of keyword arguments, and what is asked beside it.

    Raises BadInput for a name that is no option, or a value of another type.
    """
    known = (*Ask.__struct_fields__, *Search.__struct_fields__)
    for name in options:
        if name not in known:
            raise BadInput(f"plan has no option {shortened(str(name))!r}; {nearest(str(name), known)}")
    given = dict(options)
    flags = given.get("engine_args") or {}
    if not isinstance(flags, Mapping):
        raise BadInput(f"engine_args={shortened(repr(flags))} must be a mapping of flags to values")
    given.setdefault("any_engine", "engine" not in given)
    given["engine_args"] = tuple(_flag(name, value) for name, value in flags.items())
    beside = {name: given.pop(name) for name in Search.__struct_fields__ if name in given}
    return checked(Ask(**given)), checked(Search(**beside))  # type: ignore[arg-type]


def _flag(name: object, value: object) -> tuple[str, str]:
    """A flag as the command line would give it: without dashes in front, True as "true"."""
    if not isinstance(name, str) or not isinstance(value, str | bool | int | float):
        raise BadInput(f"engine_args: {shortened(repr(name))}={shortened(repr(value))} must be a flag and its value")
    word = str(value).lower() if isinstance(value, bool) else str(value)
    return name.lstrip("-").replace("_", "-"), word


def stated(kind: type[T], options: Mapping[str, object], verb: str) -> T:
    """The value of keyword arguments of `verb`. Raises BadInput for a name or a type that is wrong."""
    for name in options:
        if name not in kind.__struct_fields__:
            raise BadInput(f"{verb} has no option {shortened(str(name))!r}; {nearest(name, kind.__struct_fields__)}")
    return checked(kind(**options))


def checked(value: T) -> T:
    """`value`, when each of its fields has its type: a float where a count belongs would be planned without an end.

    Raises BadInput naming the first that has not.
    """
    try:
        return msgspec.convert(msgspec.structs.asdict(value), type(value))
    except (msgspec.ValidationError, TypeError) as problem:
        what, _, where = str(problem).partition(" - at `$.")
        name = where.partition("[")[0].rstrip("`")
        stated = f"={shortened(repr(getattr(value, name)))}" if name in value.__struct_fields__ else ""
        raise BadInput(f"{name or 'the request'}{stated}: {what.replace('`', '')}; give another value") from None


def suited(ask: Ask, kind: str) -> Ask:
    """The request with llama.cpp as the engine of a GGUF file, where no engine was named."""
    return msgspec.structs.replace(ask, engine="llamacpp") if ask.any_engine and kind == "gguf" else ask


def settled(ask: Ask, planner: Planner) -> Ask:
    """The request with its GPUs split: `--gpus` alone means tensor parallelism over all of them.

    Raises BadInput for a number out of range, an option that the engine does not have, or a secret.
    """
    _refuse_other_engines(ask, planner)
    for name, most in _MOST.items():
        value = getattr(ask, name)
        if value is not None and not 1 <= value <= most:
            limit = "at least 1" if value < 1 else f"at most {most:,}"
            raise BadInput(f"--{name.replace('_', '-')} {shortened(str(value))} must be {limit}")
    for name in ("gpu_gib", "pool_gib", "weights_gib", "share_gib"):
        value = getattr(ask, name)
        if value is not None and not 0 < value < 1e6:
            raise BadInput(f"--{name.replace('_', '-')} {value:g} must be more than 0 GiB and less than a million")
    if ask.overhead_gib is not None and not 0 <= ask.overhead_gib < 1e6:
        raise BadInput(f"--overhead-gib {ask.overhead_gib:g} must be 0 or more GiB")
    if ask.share_fraction is not None and not 0 < ask.share_fraction < 1:
        raise BadInput(f"--share {ask.share_fraction:.0%} must be above 0 % and below 100 % of the GPU's memory")
    if ask.util is not None and not 0 < ask.util <= 1:
        raise BadInput(
            f"--util {ask.util:g} must be above 0 and at most 1, the share of GPU memory that the engine claims"
        )
    for name, _ in ask.engine_args:
        if not name.isprintable() or any(letter.isspace() or letter == "=" for letter in name) or not name.strip("-"):
            raise BadInput(f"--engine-arg {shortened(name)!r} is no name of a flag; write FLAG=VALUE")
    _refuse_control(ask)
    secret = next((name for name, _ in ask.engine_args if name.lstrip("-").replace("_", "-").lower() in _SECRETS), None)
    if secret is not None:
        raise BadInput(
            f"--engine-arg {secret} would write a secret into plans and records; set it in the engine's environment"
        )
    split = ask.pp * ask.dp
    tp = ask.tp if ask.tp is not None else max(1, (ask.gpus or split) // split)
    if ask.gpus is not None and ask.gpus != tp * split:
        raise BadInput(f"--gpus {ask.gpus} is not --tp {tp} x --pp {ask.pp} x --dp {ask.dp} = {tp * split}")
    return msgspec.structs.replace(ask, tp=tp)


def beside_others(ask: Ask, gpu: Gpu | None, planner: Planner) -> Ask:
    """The request with a share of memory that fits beside what others hold, for engines that claim a share of all.

    vLLM refuses to start when less is free than it claims. Raises BadInput when the shares are more than the GPU.
    """
    if ask.share_gib is None and ask.share_fraction is None:
        return ask
    if gpu is None or ask.pool_gib is not None:
        raise BadInput("--share needs the GPU that is shared; give --gpu NAME or --gpu-gib X, without --pool-gib")
    others, whole = held_by_others(ask, gpu), gpu.usable_bytes
    room = int((whole - others) / whole * 100) / 100
    if room <= 0:
        raise BadInput(f"--share takes {gib(others)} of the GPU's {gib(whole)} and leaves nothing; lower it")
    usual = planner.default_util(ask)
    if planner.share_of != "all" or usual is None:
        return ask
    if ask.util is not None and others + ask.util * whole > whole:
        raise BadInput(
            f"--util {ask.util:g} and --share {gib(others)} are more than the GPU's {gib(whole)}: the engine would not"
            f" start; lower --util to {room:g}, or leave it out"
        )
    if ask.util is not None:
        return ask
    # What the engine usually leaves free it needs beside others too, where there is that much.
    apart = int((usual - others / whole) * 100) / 100
    return msgspec.structs.replace(ask, util=apart if apart > 0 else min(usual, room))


def _refuse_other_engines(ask: Ask, planner: Planner) -> None:
    """An option that the engine does not have would be dropped silently."""
    for name in OWN_OPTIONS - planner.options:
        if getattr(ask, name) != getattr(_NOTHING_ASKED, name):
            known = ", ".join(sorted(f"--{option.replace('_', '-')}" for option in planner.options))
            raise BadInput(f"--{name.replace('_', '-')} is no option of {ask.engine}; its own are {known}")


def _refuse_control(ask: Ask) -> None:
    """Values go into scripts, YAML and the terminal, which a control character would break or command."""
    own = {f"--{name.replace('_', '-')}": getattr(ask, name) for name in Ask.__struct_fields__}
    given = {name: value for name, value in own.items() if isinstance(value, str)}
    given |= {f"--engine-arg {name}": _without_layout(value) for name, value in ask.engine_args}
    for name, value in given.items():
        odd = next((letter for letter in value if not letter.isprintable()), None)
        if odd is not None:
            raise BadInput(f"{name} holds the control character {odd!r}; leave it out")


def _without_layout(value: str) -> str:
    """JSON may stand on several lines."""
    return value.translate({9: " ", 10: " ", 13: " "}) if value.lstrip()[:1] in ("{", "[") else value
