"""Ollama's /api/version. What is loaded is at /api/ps, with the metrics."""

from __future__ import annotations

from collections.abc import Mapping

from kvlab.core.about import About, Described, version_of

_VERSION = "/api/version"


def _read(pages: Mapping[str, str]) -> Described:
    return Described(version=version_of(pages.get(_VERSION)))


ABOUT = About(paths=(_VERSION,), telltale=_VERSION, read=_read)
