"""trtllm-serve's /version."""

from __future__ import annotations

from collections.abc import Mapping

from kvlab.core.about import About, Described, version_of

_VERSION = "/version"


def _read(pages: Mapping[str, str]) -> Described:
    return Described(version=version_of(pages.get(_VERSION)))


ABOUT = About(paths=(_VERSION,), read=_read)
