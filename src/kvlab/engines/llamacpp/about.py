"""llama-server's /props and /v1/models."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvlab.core.about import About, Described, field, stated, version_of

_PROPS, _MODELS = "/props", "/v1/models"
_BUILD = re.compile(r"b([1-9]\d*)\b")


def _read(pages: Mapping[str, str]) -> Described:
    props, models = pages.get(_PROPS), pages.get(_MODELS)
    build = _BUILD.match(version_of(props, "build_info") or "")  # "b11434-1a2b3c"; an own build may say b0
    return Described(
        version=build[0] if build else None,
        seen=(
            *stated("slots", "slots", field(props, "total_slots"), f"{_PROPS} total_slots"),
            *stated(
                "n_ctx_slot",
                "tokens",
                field(props, "default_generation_settings", "n_ctx"),
                f"{_PROPS} default_generation_settings.n_ctx",
            ),
            *stated(
                "native_context", "tokens", field(models, "data", 0, "meta", "n_ctx_train"), f"{_MODELS} n_ctx_train"
            ),
            *stated("weights_file_bytes", "bytes", field(models, "data", 0, "meta", "size"), f"{_MODELS} size"),
        ),
    )


ABOUT = About(paths=(_PROPS, _MODELS), read=_read)
