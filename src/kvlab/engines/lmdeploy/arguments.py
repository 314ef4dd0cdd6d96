"""Engine arguments that have an option of their own, and the backend that serves a model."""

from __future__ import annotations

from typing import Literal

from kvlab.core.errors import BadInput, misspelt, shortened
from kvlab.core.model import Model
from kvlab.core.plan import Ask
from kvlab.engines.lmdeploy.models import TURBOMIND

Backend = Literal["turbomind", "pytorch"]

_OWN_OPTION = {
    "session-len": "--context",
    "cache-max-entry-count": "--util",
    "num-gpu-blocks": "--pool-gib",
    "quant-policy": "--kv-dtype",
    "cache-block-seq-len": "--block-size",
    "max-batch-size": "--max-num-seqs",
    "max-prefill-token-num": "--max-num-batched-tokens",
    "tp": "--tp",
    "ep": "--ep",
    "enable-prefix-caching": "--prefix-caching",
}
_CHOSEN = ("server-name", "server-port", "log-level", "enable-metrics", "disable-metrics")
"""The address, and what kvlab needs to see the cache."""


_OTHERS = ("num-cpu-blocks",)
"""Flags whose names are close to those that count."""


def check_arguments(ask: Ask) -> None:
    """Raises BadInput for an engine argument that would overrule the plan, naming the option that says the same."""
    for name, value in ask.engine_args:
        flag = name.lstrip("-").replace("_", "-")
        if flag in _CHOSEN:
            raise BadInput(f"--engine-arg {name}: kvlab sets it to start and read the server; leave it out")
        option = _OWN_OPTION.get(flag)
        if option is not None:
            raise BadInput(f"--engine-arg {name}={value} would overrule the plan; use {option} instead")
        if name.startswith("-"):
            raise BadInput(f"--engine-arg {name}: write the flag without dashes, as {flag}=VALUE")
        near = None if flag in _OTHERS else misspelt(flag, (*_OWN_OPTION, "backend"))
        if near is not None:
            raise BadInput(f"--engine-arg {shortened(flag)}: did you mean {_OWN_OPTION.get(near, near)}?")


def backend(model: Model, ask: Ask) -> Backend:
    """The engine inside LMDeploy: the asked one, else TurboMind for the architectures that it knows.

    Raises BadInput for another word.
    """
    word = ask.arg("backend")
    if word not in (None, "turbomind", "pytorch"):
        raise BadInput(f"--engine-arg backend={word}: LMDeploy has turbomind and pytorch")
    known = word == "turbomind" if word is not None else bool(TURBOMIND & set(model.architectures))
    return "turbomind" if known else "pytorch"
