"""SGLang's /server_info: its arguments, and what it found when it started."""

from __future__ import annotations

from collections.abc import Mapping

from kvlab.core.about import About, Described, field, stated, version_of
from kvlab.engines.sglang.expects import TORCH

_PATHS = ("/server_info", "/get_server_info")
_STATE = ("internal_states", 0)


def _read(pages: Mapping[str, str]) -> Described:
    path = next((path for path in _PATHS if path in pages), _PATHS[0])
    page = pages.get(path)
    asked = field(page, "kv_cache_dtype")
    dtype = TORCH.get(asked, (asked,))[0] if isinstance(asked, str) and asked != "auto" else None
    return Described(
        version=version_of(page),
        seen=(
            *stated("kv_tokens", "tokens", field(page, "max_total_num_tokens"), f"{path} max_total_num_tokens"),
            *stated("context_len", "tokens", field(page, "context_length"), f"{path} context_length"),
            *stated(
                "max_running_requests",
                "requests",
                field(page, *_STATE, "effective_max_running_requests_per_dp") or field(page, "max_running_requests"),
                f"{path} effective_max_running_requests_per_dp, max_running_requests",
            ),
            # What was asked for: "auto" does not tell the format.
            *stated("kv_cache_dtype", "word", dtype, f"{path} kv_cache_dtype"),
        ),
    )


ABOUT = About(read=_read)
