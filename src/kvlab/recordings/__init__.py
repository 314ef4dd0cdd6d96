"""Saved looks at a server: one format a file of this folder, found by its `Format` value."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from functools import cache
from importlib import import_module

import msgspec

from kvlab import store
from kvlab.core.diagnosis import Look
from kvlab.core.errors import BadInput
from kvlab.recordings._pages import engine_of, of_text

__all__ = ["Format", "engine_of", "formats", "read"]


_PACKED = (b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh", b"PK\x03\x04")
"""zstd, xz, bzip2, zip."""


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of file that holds a series of looks."""

    title: str
    recognises: Callable[[str], bool]
    """Whether a file that begins with this line is one."""
    read: Callable[[str, str, float | None], tuple[Look, ...]]
    """(text, path, seconds between two rows where the file states none) -> the looks. Raises BadInput."""


@cache
def formats() -> tuple[Format, ...]:
    """Every format, by its file's name."""
    with os.scandir(os.path.dirname(__file__)) as entries:
        names = [entry.name for entry in entries if entry.name.endswith(".py") and not entry.name.startswith("_")]
    modules = [import_module(f"{__name__}.{name.removesuffix('.py')}") for name in sorted(names)]
    return tuple(value for module in modules for value in vars(module).values() if isinstance(value, Format))


def read(path: str, engine: str | None = None, seconds: float | None = None) -> tuple[Look, ...]:
    """The looks that a file holds: a series of a known format, or one scrape as Prometheus text.

    Raises BadInput in one line for a file that is missing, empty, of no engine that kvlab knows, or damaged.
    """
    text = _unpacked(store.read_bytes(path, "scrape"), path).decode(errors="replace").lstrip("\ufeff")
    if not text.strip():
        raise BadInput(f"{path} is empty; save the engine's /metrics page into it (curl URL/metrics > FILE)")
    head = text.lstrip().split("\n", 1)[0].strip()
    for form in formats():
        if form.recognises(head):
            found = form.read(text, path, seconds)
            if engine is not None and found[0].reading.engine != engine:
                raise BadInput(f"{path}: the metrics are {found[0].reading.engine}'s, not {engine}'s; correct --engine")
            return found
    if head.startswith("<"):
        raise BadInput(f"{path} is HTML or XML, not a metrics page; save the engine's own page (curl URL/metrics)")
    try:
        return (Look(0.0, of_text(text, engine)),)
    except BadInput as error:
        known = ", ".join(form.title for form in formats())
        raise BadInput(f"{path}: {error} (or give a series: {known})") from None


def _unpacked(content: bytes, path: str) -> bytes:
    if content.startswith(_PACKED):
        raise BadInput(f"{path} is packed; unpack it, or pack it with gzip")
    if not content.startswith(b"\x1f\x8b"):
        return content
    import gzip
    import zlib

    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            found = file.read(store.MOST_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{path} is a damaged gzip file ({error}); copy it again") from None
    if len(found) > store.MOST_BYTES:
        raise BadInput(f"{path} unpacks to more than {store.MOST_BYTES:,} bytes, more than any scrape has")
    return found
