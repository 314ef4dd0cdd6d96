"""The files of a model's weights with their sizes and hashes: what says after an upgrade that the model is the same."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from kvlab.core.model import Origin
from kvlab.core.units import GIB
from kvlab.lockfile import LockedFile, LockedModel

MOST_HASHED = 16 * GIB
"""Weights that are hashed here: about a minute of reading. Above it sizes stand alone."""
_CHUNK = 1 << 22
_WEIGHTS = (".safetensors", ".gguf", ".bin", ".pt")
_SHARD = re.compile(r"-\d{5}-of-(\d{5})\.gguf$")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_SHA256 = re.compile(r"[0-9a-f]{64}")

OnBytes = Callable[[int, int], None]


def model(origin: Origin, place: str | None, progress: OnBytes | None = None) -> LockedModel:
    """The model of a plan. `place` is where a local one is (None: not known); one of the Hub is looked up in its cache.

    Never asks the network, and never raises for files that cannot be read: they are left out, or stand with their size.
    """
    if origin.kind == "hub":
        folder = _snapshot(origin)
        revision = folder.name if folder is not None and _COMMIT.fullmatch(folder.name) else origin.revision
        files = _of_folder(folder) if folder is not None else []
        return LockedModel(name=origin.name, kind=origin.kind, revision=revision, files=_hashed(files, progress))
    here = Path(place).expanduser() if place else None
    files = []
    if here is not None and here.is_file() and origin.kind == "gguf":
        files = _shards(here)
    elif here is not None and here.is_dir():
        files = _of_folder(here)
    return LockedModel(name=origin.name, kind=origin.kind, revision=origin.revision, files=_hashed(files, progress))


def _snapshot(origin: Origin) -> Path | None:
    """The folder of the Hub's cache that holds the revision; its name is the commit."""
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(origin.name, "config.json", revision=origin.revision)
    return Path(found).parent if isinstance(found, str) else None


def _of_folder(folder: Path) -> list[Path]:
    try:
        return sorted(path for path in folder.iterdir() if path.suffix in _WEIGHTS and path.is_file())
    except OSError:
        return []


def _shards(first: Path) -> list[Path]:
    found = _SHARD.search(first.name)
    if found is None:
        return [first]
    stem = first.name[: found.start()]
    return sorted(path for path in first.parent.glob(f"*-of-{found[1]}.gguf") if path.name.startswith(stem))


def _hashed(files: list[Path], progress: OnBytes | None) -> tuple[LockedFile, ...]:
    sizes = {path: path.stat().st_size for path in files if path.exists()}
    known = {path: _blob(path) for path in sizes}
    total = sum(size for path, size in sizes.items() if known[path] is None)
    done, found = 0, []
    for path, size in sizes.items():
        sha256 = known[path]
        if sha256 is None and total <= MOST_HASHED:
            sha256 = _sha256(path, None if progress is None else partial(_tell, progress, done, total))
            done += size
        found.append(LockedFile(name=path.name, bytes=size, sha256=sha256))
    return tuple(found)


def _tell(progress: OnBytes, before: int, total: int, read: int) -> None:
    progress(before + read, total)


def _blob(path: Path) -> str | None:
    """The hash by which the Hub's cache names the file that a snapshot links to; None for any other file."""
    if not path.is_symlink():
        return None
    name = os.path.basename(os.path.realpath(path))
    return name if _SHA256.fullmatch(name) else None


def _sha256(path: Path, progress: Callable[[int], None] | None) -> str | None:
    found, read = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while block := file.read(_CHUNK):
                found.update(block)
                read += len(block)
                if progress is not None:
                    progress(read)
    except OSError:
        return None
    return found.hexdigest()
