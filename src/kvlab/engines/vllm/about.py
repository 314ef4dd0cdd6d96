"""vLLM's /version, /v1/models, and the configuration of the cache that its metrics carry as labels."""

from __future__ import annotations

from collections.abc import Mapping

from kvlab.core.about import About, Described, field, stated, version_of
from kvlab.core.errors import BadInput
from kvlab.core.exposition import samples
from kvlab.core.observation import Setting
from kvlab.core.stated import ABSENT
from kvlab.engines.vllm.stated_args import GIVEN

_VERSION, _MODELS, _METRICS = "/version", "/v1/models", "/metrics"
_CONFIG = "vllm:cache_config_info"
_ARGUMENTS = {
    "cache_dtype": "kv_cache_dtype",
    **{
        name: name
        for name in (
            "block_size",
            "enable_prefix_caching",
            "gpu_memory_utilization",
            "kv_cache_memory_bytes",
            "kv_offloading_backend",
            "kv_offloading_size",
            "mamba_cache_mode",
            "num_gpu_blocks_override",
        )
    },
}
"""Labels -> the arguments of vllm serve that they come from."""
_NOTHING = ("none", "")


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
        settings=(*_context(pages.get(_MODELS)), *_settings(labels)),
    )


def _context(page: str | None) -> tuple[Setting, ...]:
    value = field(page, "data", 0, "max_model_len")
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 40:
        return ()
    return (Setting(name="context", flag="--max-model-len", value=value, line=f"{_MODELS} max_model_len"),)


def _settings(labels: Mapping[str, str]) -> tuple[Setting, ...]:
    """The labels that are arguments, as a log's are read; "None" is one that was not given."""
    found = []
    for label, key in _ARGUMENTS.items():
        named, text = GIVEN[key], labels.get(label)
        value = ABSENT if text is None or text in _NOTHING else named.turn(text)
        if value != ABSENT:
            flag, line = "--" + key.replace("_", "-"), f"{_METRICS} {_CONFIG} {label}={text}"
            found.append(Setting(name=named.name, flag=flag, value=value, line=line))
    return tuple(found)


def _labels(page: str | None) -> dict[str, str]:
    if page is None or _CONFIG not in page:
        return {}
    try:
        return next((sample.labels for sample in samples(page) if sample.name == _CONFIG), {})
    except BadInput:
        return {}


ABOUT = About(paths=(_VERSION, _MODELS), read=_read)
