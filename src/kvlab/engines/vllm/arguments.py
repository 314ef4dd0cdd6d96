"""Engine arguments: those with an option of their own, those that a plan honours, and those that may change it."""

from __future__ import annotations

import json

from kvlab.core.errors import BadInput, misspelt, shortened
from kvlab.core.model import Doubt
from kvlab.core.plan import Ask

_OWN_OPTION = {
    "max-model-len": "--context",
    "kv-cache-dtype": "--kv-dtype",
    "gpu-memory-utilization": "--util",
    "device-memory-utilization": "--util",
    "kv-cache-memory-bytes": "--pool-gib",
    "block-size": "--block-size",
    "max-num-batched-tokens": "--max-num-batched-tokens",
    "max-num-seqs": "--max-num-seqs",
    "tensor-parallel-size": "--tp",
    "pipeline-parallel-size": "--pp",
    "data-parallel-size": "--dp",
    "decode-context-parallel-size": "--dcp",
    "mamba-cache-mode": "--mamba-cache-mode",
    "kv-offloading-size": "--offload native --offload-gib",
    **{short: f"--{short}" for short in ("tp", "pp", "dp", "dcp")},
}
_CHOSEN = ("host", "port")
"""kvlab serves on loopback, at a port that it finds free."""
_UNSEEN = "disable-log-stats"
"""Without the statistics nothing of the cache is seen in the log or at /metrics."""
_SWITCHES = (
    *("async-scheduling", "disable-hybrid-kv-cache-manager", "enable-prefix-caching", "no-enable-prefix-caching"),
    *("enable-chunked-prefill", "no-enable-chunked-prefill"),
)
_NEGATED = ("no-async-scheduling", "no-disable-hybrid-kv-cache-manager")
_HONOURED = (
    *("mamba-cache-dtype", "mamba-ssm-cache-dtype", "num-gpu-blocks-override", "speculative-config", "dtype"),
    *("all2all-backend", "performance-mode", "enforce-eager", "rope-scaling"),
)
_DTYPES = ("auto", "half", "float16", "bfloat16", "float", "float32")
_OBJECTS = ("hf-overrides", "kv-transfer-config")
_OTHER_MODEL = ("hf-overrides", "hf-config-path", "quantization")
"""What vLLM then serves is not, or not only, what the config says."""
_OFFLOADED = ("cpu-offload-gb", "cpu-offload-params", "offload-backend")
"""What keeps weights in the machine's memory."""
_HARMLESS = (
    # Words about caches of other things, or about what passes through the cache.
    *("kv-events-config", "kv-cache-metrics", "kv-cache-metrics-sample", "kv-sharing-fast-prefill"),
    *("calculate-kv-scales", "prefix-caching-hash-algo", "mm-processor-cache-gb", "mm-processor-cache-type"),
    *("disable-mm-preprocessor-cache", "compilation-cache-dir", "tool-parser-cache", "kv-offloading-backend"),
)
_TRUTHS = ("", "1", "true", "yes", "on", "0", "false", "no", "off")


def check_arguments(ask: Ask) -> None:
    """Raises BadInput for an engine argument that would overrule the plan, naming the option that says the same.

    As well for one that is misspelt, and for a value that vLLM would not take.
    """
    for name, value in ask.engine_args:
        flag, shown = name.lstrip("-").replace("_", "-"), shortened(value)
        if flag in _CHOSEN:
            raise BadInput(f"--engine-arg {name}={shown}: kvlab chooses the address; leave it out")
        if flag == _UNSEEN and value.lower() in ("", "1", "true", "yes", "on"):
            raise BadInput(f"--engine-arg {name}: then neither the log nor /metrics shows the cache; leave it out")
        option = _OWN_OPTION.get(flag)
        if option is not None:
            raise BadInput(f"--engine-arg {name}={shown} would overrule the plan; use {option} instead")
        if name.startswith("-"):
            raise BadInput(f"--engine-arg {name}: write the flag without dashes, as {flag}=VALUE")
        if flag in _NEGATED:
            raise BadInput(f"--engine-arg {name}: write it as {flag.removeprefix('no-')}=false")
        _check_spelling(flag)
        _check_value(flag, value)


def _check_spelling(flag: str) -> None:
    """vLLM takes any unique beginning of a flag, so that one would be honoured there and not seen here."""
    word = _base(flag)
    counted = (*_OWN_OPTION, *_SWITCHES, *_NEGATED, *_HONOURED, *_OBJECTS)
    if word in counted or word in _HARMLESS:
        return
    begun = next((known for known in counted if len(word) >= 4 and known.startswith(word)), None)
    near = begun or misspelt(word, counted)
    if near is not None:
        raise BadInput(f"--engine-arg {shortened(flag)}: did you mean {_OWN_OPTION.get(near, near)}?")


def _base(flag: str) -> str:
    """The flag of "flag.key" and "flag+", vLLM's ways of setting parts of a value."""
    return flag.partition(".")[0].partition("+")[0]


def _check_value(flag: str, value: str) -> None:
    word, wanted = value.strip().lower(), None
    if flag in _SWITCHES and word not in _TRUTHS:
        wanted = "true or false"
    elif flag == "dtype" and word not in _DTYPES:
        wanted = f"one of {', '.join(_DTYPES)}"
    elif flag in _OBJECTS and not _is_object(value):
        wanted = f'a JSON object, such as {flag}={{"key": 1}}'
    if wanted is not None:
        raise BadInput(f"--engine-arg {flag}={shortened(value)}: vLLM takes {wanted}")


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def argument_doubts(ask: Ask) -> list[Doubt]:
    """Arguments that are passed on and may change the cache in a way that is not computed."""
    found = []
    for flag in dict.fromkeys(_base(name.replace("_", "-")) for name, _ in ask.engine_args):
        if flag in _OTHER_MODEL:
            found.append(Doubt(flag, "vLLM then serves another config than the one that is planned here"))
        elif flag in _OFFLOADED:
            found.append(Doubt(flag, "leaves vLLM more of the GPU for the cache; passed on, not computed"))
        elif flag not in (*_SWITCHES, *_HONOURED, *_HARMLESS) and ("kv" in flag or "cache" in flag):
            found.append(Doubt(flag, "may change the cache in vLLM; passed to the launch command, not computed"))
    return found
