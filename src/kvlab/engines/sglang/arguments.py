"""Engine arguments: those with an option of their own, and the values of those that change the cache."""

from __future__ import annotations

from kvlab.core.errors import BadInput, misspelt, shortened
from kvlab.core.plan import Ask

_OWN_OPTION = {
    "context-length": "--context",
    "kv-cache-dtype": "--kv-dtype",
    "page-size": "--block-size",
    "chunked-prefill-size": "--max-num-batched-tokens",
    "max-running-requests": "--max-num-seqs",
    "tp": "--tp",
    "tp-size": "--tp",
    "tensor-parallel-size": "--tp",
    "pp-size": "--pp",
    "pipeline-parallel-size": "--pp",
    "ep": "--ep",
    "ep-size": "--ep",
    "expert-parallel-size": "--ep",
    "enable-hierarchical-cache": "--offload hicache",
    "hicache-size": "--offload hicache --offload-gib",
    "enable-lmcache": "--offload lmcache",
    "lmcache-config-file": "--offload lmcache",
}
_CHOSEN = ("host", "port")
"""kvlab serves on loopback, at a port that it finds free."""
_QUIET = ("warning", "error", "critical")
"""Log levels without the lines that state the cache."""
FRACTION = "mem-fraction-static"
_COUNTS = ("max-total-tokens", "max-mamba-cache-size", "cuda-graph-max-bs", "cuda-graph-max-bs-decode")
_RATIOS = ((FRACTION, 1.0), ("swa-full-tokens-ratio", 1.0), ("mamba-full-memory-ratio", 1e6))
_DP_WORDS = ("dp", "dp-size", "data-parallel-size")

_HONOURED = (
    *("enable-dp-attention", "json-model-override-args", "speculative-algorithm", "speculative-num-draft-tokens"),
    *("speculative-draft-model-path", "mamba-ssm-dtype", "mamba-scheduler-strategy", "mamba-radix-cache-strategy"),
    *("attention-backend", "dcp-size", "attn-dp-size"),
)


def check_arguments(ask: Ask) -> None:
    """Raises BadInput for an engine argument that would overrule the plan, naming the option that says the same."""
    for name, value in ask.engine_args:
        flag = name.lstrip("-").replace("_", "-")
        if flag in _CHOSEN:
            raise BadInput(f"--engine-arg {name}={value}: kvlab chooses the address; leave it out")
        if flag == "log-level" and value.lower() in _QUIET:
            raise BadInput(
                f"--engine-arg {name}={value}: the cache is stated at info, and would not be seen; leave it out"
            )
        option = _OWN_OPTION.get(flag)
        if option is not None:
            raise BadInput(f"--engine-arg {name}={value} would overrule the plan; use {option} instead")
        if name != flag:
            raise BadInput(f"--engine-arg {name}: write the flag as {flag}=VALUE")
        near = misspelt(flag, (*_OWN_OPTION, *_COUNTS, *(word for word, _ in _RATIOS), *_DP_WORDS, *_HONOURED))
        if near is not None:
            raise BadInput(f"--engine-arg {shortened(flag)}: did you mean {_OWN_OPTION.get(near, near)}?")
        if flag in _DP_WORDS and not on(ask, "enable-dp-attention"):
            raise BadInput(f"--engine-arg {name}={value} would overrule the plan; use --dp instead")
    for flag in _COUNTS:
        whole(ask, flag)
    for flag, most in _RATIOS:
        ratio(ask, flag, most)
    if ask.util is not None and ask.arg(FRACTION) is not None:
        raise BadInput(f"--util and --engine-arg {FRACTION} say the same; give one of them")


def on(ask: Ask, flag: str) -> bool:
    """Whether a switch is given as FLAG or FLAG=true."""
    value = ask.arg(flag)
    return value is not None and value.strip().lower() in ("", "1", "true", "yes", "on")


def whole(ask: Ask, flag: str) -> int | None:
    """The whole number of an engine argument, at least 1; None when it was not given. Raises BadInput otherwise."""
    value = ask.arg(flag)
    if value is None:
        return None
    digits = value.strip().replace(",", "").replace("_", "")
    if not digits.isdecimal() or not 0 < int(digits) < 1 << 40:
        raise BadInput(f"--engine-arg {flag}={value} must be a whole number of at least 1")
    return int(digits)


def ratio(ask: Ask, flag: str, most: float) -> float | None:
    """The number of an engine argument, above 0 and at most `most`; None when it was not given.

    Raises BadInput otherwise.
    """
    value = ask.arg(flag)
    if value is None:
        return None
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number <= most:
        raise BadInput(f"--engine-arg {flag}={value} must be above 0 and at most {most:g}")
    return number


def attention_groups(ask: Ask) -> int:
    """Groups of DP attention: each serves other requests with a cache of its own. 1: DP attention is off.

    Raises BadInput when the groups are not named, or do not divide the tensor-parallel ranks.
    """
    if not on(ask, "enable-dp-attention"):
        return 1
    tp = ask.tp or 1
    if ask.dp > 1:
        raise BadInput(
            "with DP attention the replicas share the --tp GPUs; leave out --dp and give --engine-arg dp-size=N"
        )
    named = next((number for word in (*_DP_WORDS, "attn-dp-size") if (number := whole(ask, word))), None)
    if named is None:
        raise BadInput("--engine-arg enable-dp-attention=true needs the number of groups: --engine-arg dp-size=N")
    if tp % named:
        raise BadInput(f"--engine-arg dp-size={named} must divide --tp {tp}: DP attention shares its GPUs")
    return named
