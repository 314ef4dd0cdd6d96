"""vLLM's /version, /v1/models, and the configuration of the cache that its metrics carry as labels."""

from __future__ import annotations

from collections.abc import Mapping

from kvlab.core.about import About, Described, field, stated, version_of
from kvlab.core.errors import BadInput
from kvlab.core.exposition import samples

_VERSION, _MODELS, _METRICS = "/version", "/v1/models", "/metrics"
_CONFIG = "vllm:cache_config_info"


def _read(pages: Mapping[str, str]) -> Described:
    labels = _labels(pages.get(_METRICS))
    return Described(
        version=version_of(pages.get(_VERSION)),
        seen=(
            *stated(
                "max_model_len",
                "tokens",
                field(pages.get(_MODELS), "data", 0, "max_model_len"),
                f"{_MODELS} max_model_len",
            ),
            *stated("kv_cache_dtype", "word", labels.get("cache_dtype"), f"{_METRICS} {_CONFIG} cache_dtype"),
        ),
    )


def _labels(page: str | None) -> dict[str, str]:
    if page is None or _CONFIG not in page:
        return {}
    try:
        return next((sample.labels for sample in samples(page) if sample.name == _CONFIG), {})
    except BadInput:
        return {}


ABOUT = About(paths=(_VERSION, _MODELS), read=_read)
