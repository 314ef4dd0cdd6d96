"""Engine arguments that have an option of their own, where the plan would otherwise not see them."""

from __future__ import annotations

from kvlab.core.errors import BadInput
from kvlab.core.plan import Ask

_OWN_OPTION = {
    "max-model-len": "--context",
    "kv-cache-dtype": "--kv-dtype",
    "gpu-memory-utilization": "--util",
    "kv-cache-memory-bytes": "--pool-gib",
    "block-size": "--block-size",
    "max-num-batched-tokens": "--max-num-batched-tokens",
    "max-num-seqs": "--max-num-seqs",
    "tensor-parallel-size": "--tp",
    "pipeline-parallel-size": "--pp",
    "data-parallel-size": "--dp",
    "decode-context-parallel-size": "--dcp",
    "mamba-cache-mode": "--mamba-cache-mode",
}
_CHOSEN = ("host", "port")
"""kvlab serves on loopback, at a port that it finds free."""


def check_arguments(ask: Ask) -> None:
    """Raises BadInput for an engine argument that would overrule the plan, naming the option that says the same."""
    for name, value in ask.engine_args:
        flag = name.lstrip("-").replace("_", "-")
        if flag in _CHOSEN:
            raise BadInput(f"--engine-arg {name}={value}: kvlab chooses the address; leave it out")
        option = _OWN_OPTION.get(flag)
        if option is not None:
            raise BadInput(f"--engine-arg {name}={value} would overrule the plan; use {option} instead")
        if name.startswith("-"):
            raise BadInput(f"--engine-arg {name}: write the flag without dashes, as {flag}=VALUE")
