"""Documents on disk: written whole or not at all."""

from __future__ import annotations

import os
from typing import TypeVar

import msgspec

from kvlab.core.errors import BadInput

T = TypeVar("T")


def encode(document: object) -> bytes:
    """JSON with two spaces of indent and a final newline."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def write_atomic(path: str | os.PathLike[str], content: bytes) -> None:
    """Writes beside `path`, then renames: a reader, or a crash, never sees half a file.

    A device or a pipe is written to as it is: a rename would put a file in its place.
    """
    import tempfile

    target = os.fspath(path)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            file.write(content)
        return
    folder = os.path.dirname(target) or "."
    handle, temporary = tempfile.mkstemp(prefix=".kvlab-", dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current


def read(path: str | os.PathLike[str], kind: type[T], what: str) -> T:
    """The document at `path`. Raises BadInput naming what is wrong with it, and where."""
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        raise BadInput(f"no {what} at {os.fspath(path)}; check the path") from None
    except IsADirectoryError:
        raise BadInput(f"{os.fspath(path)} is a folder; name the {what} in it") from None
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise BadInput(f"{os.fspath(path)} is not a {what} of this version: {error}") from None
