"""Ollama has no metrics page: /api/ps says what is loaded, with what context, and how much of it lies on GPUs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kvlab.core.errors import BadInput
from kvlab.core.metric_map import MetricMap

_PATH = "/api/ps"


class _Loaded(msgspec.Struct):
    size: int | None = None
    size_vram: int | None = None
    context_length: int | None = None


class _Page(msgspec.Struct):
    models: list[_Loaded] | None = None


def _more(pages: Mapping[str, str], _: Mapping[str, float]) -> dict[str, float]:
    """Nothing while no model is loaded, or when several are: they share no number."""
    if _PATH not in pages:
        return {}
    try:
        models = msgspec.json.decode(pages[_PATH], type=_Page).models or []
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput(f"{_PATH} is not Ollama's list of loaded models: {error}") from None
    if len(models) != 1:
        return {}
    loaded, found = models[0], dict[str, float]()
    if loaded.context_length is not None:
        found["n_ctx_slot"] = float(loaded.context_length)
    if loaded.size is not None:
        found["loaded_bytes"] = float(loaded.size)
    if loaded.size_vram is not None:
        found["loaded_gpu_bytes"] = float(loaded.size_vram)
    return found


METRICS = MetricMap(
    prefix="",
    paths=(_PATH,),
    more=_more,
    told={
        "n_ctx_slot": "/api/ps context_length",
        "loaded_bytes": "/api/ps size",
        "loaded_gpu_bytes": "/api/ps size_vram",
    },
)
