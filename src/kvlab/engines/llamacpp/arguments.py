"""Engine arguments that have an option of their own, where the plan would otherwise not see them."""

from __future__ import annotations

from kvlab.core.errors import BadInput, misspelt, shortened
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask
from kvlab.engines._llama.cells import UBATCH

_OWN_OPTION = {
    "model": "SOURCE",
    "ctx-size": "--context",
    "parallel": "--parallel",
    "kv-unified": "--kv-unified",
    "no-kv-unified": "--no-kv-unified",
    "kv-unified-per-slot": "--context with --parallel",
    "cache-type-k": "--kv-dtype-k",
    "cache-type-v": "--kv-dtype-v",
    "swa-full": "--swa-full",
    "ubatch-size": "--ubatch",
    "no-cache-prompt": "--no-prefix-caching",
}
_SHORT = {
    "m": "model",
    "c": "ctx-size",
    "np": "parallel",
    "kvu": "kv-unified",
    "ctk": "cache-type-k",
    "ctv": "cache-type-v",
    "ub": "ubatch-size",
}
_CHOSEN = ("host", "port", "metrics", "slots", "no-slots", "log-verbosity", "lv", "verbosity", "log-disable")
"""The address, and what kvlab needs to see the cache."""
_OTHERS = ("batch-size", "cache-prompt", "models-dir", "models-max", "model-url", "ctx-size-draft")
"""Flags of llama-server whose names are close to those that count."""
_OFF = ("off", "disabled", "false", "0")
_HARMLESS = (
    "cache-ram",
    "cache-reuse",
    "cache-prompt",
    "cache-idle-slots",
    "clear-idle",
    "cache-list",
    "slot-save-path",
)
"""Words about prompts kept beside the cache, in the machine's memory or on disk."""


def check_arguments(ask: Ask) -> None:
    """Raises BadInput for an engine argument that would overrule the plan, naming the option that says the same.

    As well for one that is misspelt.
    """
    for name, value in ask.engine_args:
        flag = name.lstrip("-").replace("_", "-")
        if flag in _CHOSEN:
            raise BadInput(f"--engine-arg {name}: kvlab sets it to start and read the server; leave it out")
        option = _OWN_OPTION.get(_SHORT.get(flag, flag))
        if option is not None:
            raise BadInput(f"--engine-arg {name}={shortened(value)} would overrule the plan; use {option} instead")
        if name.startswith("-"):
            raise BadInput(f"--engine-arg {name}: write the flag without dashes, as {flag}=VALUE")
        near = None if flag in _OTHERS else misspelt(flag, _OWN_OPTION)
        if near is not None:
            raise BadInput(f"--engine-arg {shortened(flag)}: did you mean {_OWN_OPTION[near]}?")


def flash_attention_off(ask: Ask) -> bool:
    """Whether flash attention is switched off; it is on where the backend has it otherwise."""
    return (ask.arg("flash-attn") or ask.arg("fa") or "auto").lower() in _OFF


def micro_batch(ask: Ask) -> int:
    """Tokens of a micro-batch: `-ub`, and no more than `-b`. Raises BadInput for a `-b` that is no number."""
    stated = ask.arg("batch-size") or ask.arg("b")
    if stated is None:
        return ask.ubatch or UBATCH
    if not stated.isascii() or not stated.isdigit() or int(stated[:9]) == 0:
        raise BadInput(f"--engine-arg batch-size={shortened(stated)}: it must be a whole number of tokens above 0")
    return min(ask.ubatch or UBATCH, int(stated[:9]))


def argument_doubts(ask: Ask) -> list[Doubt]:
    """Arguments that are passed on and may change the cache in a way that is not computed."""
    flags = dict.fromkeys(name.replace("_", "-") for name, _ in ask.engine_args)
    text = "may change the cache in llama.cpp; passed to the launch command, not computed"
    return [
        Doubt(flag, text) for flag in flags if flag not in _HARMLESS and ("kv" in flag.split("-") or "cache" in flag)
    ]
