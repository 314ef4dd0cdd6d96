"""The settings that TensorRT-LLM's log states: the share of what is free, and the limits of the scheduler."""

from __future__ import annotations

from kvlab.core.observation import Observation, Setting
from kvlab.core.stated import StatedArgs, setting_of

_FROM = {"context": ("context", "max_seq_len"), "max_batch_size": ("max_num_seqs", "max_batch_size")}


def _derived(observation: Observation) -> tuple[Setting, ...]:
    """What other lines state of the request."""
    found = []
    for seen, (name, flag) in _FROM.items():
        if (item := observation.get(seen)) is not None and not isinstance(item.value, str):
            found.append(setting_of(item, name, flag, int(item.value)))
    if (part := observation.get("fraction")) is not None and not isinstance(part.value, str):
        found.append(setting_of(part, "util", "free_gpu_memory_fraction", round(part.value, 6)))
    return tuple(found)


STATED = StatedArgs(
    derived=_derived,
    where='"available KV cache memory when calculating max tokens: ..., fraction is set ...", at log level info',
)
