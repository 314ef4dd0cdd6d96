"""The settings that TensorRT-LLM's log states: the share of what is free, and the limits of the scheduler."""

from __future__ import annotations

import re

from kvlab.core.observation import Observation, Said, Setting
from kvlab.core.stated import StatedArgs
from kvlab.core.units import GIB

_FROM = {"context": ("context", "max_seq_len"), "max_batch_size": ("max_num_seqs", "max_batch_size")}


def _derived(observation: Observation) -> tuple[Setting, ...]:
    """What other lines state of the request."""
    found = []
    for seen, (name, flag) in _FROM.items():
        if (item := observation.get(seen)) is not None and not isinstance(item.value, str):
            found.append(
                Setting(name=name, flag=flag, value=int(item.value), line=item.line, line_number=item.line_number)
            )
    if (part := observation.get("fraction")) is not None and not isinstance(part.value, str):
        value = round(part.value, 6)
        flag = "free_gpu_memory_fraction"
        found.append(Setting(name="util", flag=flag, value=value, line=part.line, line_number=part.line_number))
    return tuple(found)


STATED = StatedArgs(
    told=(
        # "Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 63.62 GiB"
        Said("free_for_cache_bytes", "bytes", re.compile(r"in paged kv cache: total: .* available: ([\d.]+) GiB"), GIB),
    ),
    derived=_derived,
    where='"available KV cache memory when calculating max tokens: ..., fraction is set ...", at log level info',
)
