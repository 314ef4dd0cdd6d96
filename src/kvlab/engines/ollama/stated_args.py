"""The settings that Ollama's log states: those of the llama-server that it runs."""

from __future__ import annotations

from msgspec.structs import replace

from kvlab.core.observation import Observation, Setting
from kvlab.core.stated import StatedArgs
from kvlab.engines._llama import settings


def _derived(observation: Observation) -> tuple[Setting, ...]:
    """A request's context is its slot's share of the cells; keys and values have one type."""
    slots = observation.get("slots")
    count = int(slots.value) if slots is not None and not isinstance(slots.value, str) and slots.value >= 1 else 1
    found = []
    for item in settings.derived(observation):
        if item.name == "context" and isinstance(item.value, int):
            found.append(replace(item, flag="num_ctx", value=item.value // count))
        elif item.name in ("parallel", "ubatch"):
            found.append(item)
        elif item.name == "kv_dtype_k":
            found.append(replace(item, name="kv_dtype", flag="OLLAMA_KV_CACHE_TYPE"))
    return tuple(found)


STATED = StatedArgs(told=settings.TOLD, derived=_derived, where='msg="starting llama-server" cmd="..."')
