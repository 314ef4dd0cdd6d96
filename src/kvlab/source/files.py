"""Configs, folders and GGUF files on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kvlab import store
from kvlab.core.config import Config
from kvlab.core.errors import BadInput, listed, nearest
from kvlab.core.layout import Layout
from kvlab.core.model import Origin
from kvlab.families import understand
from kvlab.source import model as facts
from kvlab.source import parse, refuse
from kvlab.source.loaded import Loaded

if TYPE_CHECKING:
    from kvlab.core.roofline import Work


def load_file(path: Path) -> Loaded:
    """A config.json under any name, or a GGUF file."""
    if not path.is_file():
        raise _no_file(str(path))
    with os.fdopen(store.open_regular(path, "model"), "rb") as file:
        magic = file.read(4)
    if magic == b"GGUF" or path.suffix.lower() == ".gguf":
        from kvlab.source.gguf_model import load_gguf

        return load_gguf(path)
    name = f"{path.resolve().parent.name}/{path.name}" if path.name == "config.json" else path.name
    title = path.resolve().parent.name if path.name == "config.json" else path.stem
    config = read_config(path)
    return counted(from_config(config, Origin(name, "config"), title), config)


def load_folder(path: Path) -> Loaded:
    """A model folder: its config.json with the weights beside it, or its one GGUF file."""
    found = path / "config.json"
    if found.is_dir():
        raise BadInput(f"{found} is a folder, not a file; give the model's config.json")
    if not found.exists():
        return _without_config(path)
    from kvlab.source import safetensors

    name = path.resolve().name
    config, quant = read_config(found), quant_config(path)
    loaded = from_config(config, Origin(name, "folder"), name, quant)
    weights = safetensors.folder_weights(path)
    return counted(loaded, config, quant) if weights is None else replace(loaded, weights=weights)


def counted(loaded: Loaded, config: Config, quant: Config | None = None) -> Loaded:
    """The model with weights counted from its config, and doubts about what was not counted.

    Without weights when the shape is not known.
    """
    from kvlab.source import count

    weights, doubts = count.count(config, quant)
    return replace(loaded, weights=weights, doubts=(*loaded.doubts, *doubts))


def read_config(path: Path, where: str | None = None) -> Config:
    """The config in a file of believable size; `where` names the file in errors instead of its path."""
    where = where or str(path)
    if not path.is_file():
        raise _no_file(where)
    size = path.stat().st_size
    if size > parse.MAX_CONFIG_BYTES:
        kind = "weights" if path.suffix in (".safetensors", ".bin", ".pt", ".pth") else "something else"
        raise BadInput(f"{where} has {size:,} bytes: {kind}, not a config; give config.json, its folder or a GGUF file")
    return parse.config(store.read_bytes(path, "config", parse.MAX_CONFIG_BYTES), where)


def _no_file(where: str) -> BadInput:
    """A pipe would block, and a device never end."""
    return BadInput(f"{where} is no regular file; give a config.json, its folder or a GGUF file")


def quant_config(path: Path) -> Config | None:
    """ModelOpt's hf_quant_config.json beside the config, where there is one."""
    found = path / "hf_quant_config.json"
    return read_config(found) if found.exists() else None


def from_config(config: Config, origin: Origin, name: str, quant: Config | None = None) -> Loaded:
    """The model of a parsed config, without weights; `quant` is ModelOpt's own file where there is one."""
    refuse.other_files(config)
    understood = understand(config)
    described = facts.model(config, name, understood)
    if quant is not None and described.kv_cache_format is None:
        described = replace(described, kv_cache_format=facts.kv_cache_format(quant))
    said = {config.path: config, config.language().path: config.language()}
    unknown = facts.doubts(*said.values(), *(() if quant is None else (quant,)))
    return Loaded(
        origin=origin,
        model=described,
        layout=understood.layout,
        weights=None,
        doubts=(*understood.doubts, *unknown),
        work=lambda read: _work(config, understood.layout, read),
    )


def _work(config: Config, layout: Layout, read: int | None) -> Work | None:
    from kvlab.source import count_work

    return count_work.work(config, layout, read)


def missing(path: Path) -> BadInput:
    """The line for a path that is not there: the nearest name in its folder."""
    folder = path.parent
    if not folder.is_dir():
        return BadInput(f"{path} does not exist: there is no folder {folder}; check the path")
    names = [entry.name for entry in folder.iterdir() if entry.is_dir() or entry.suffix in (".json", ".gguf")]
    hint = nearest(path.name, sorted(names)) if names else "the folder holds no config.json or GGUF file"
    return BadInput(f"{path} does not exist; {hint}")


def _without_config(path: Path) -> Loaded:
    models = sorted(entry for entry in path.glob("*.gguf") if "mmproj" not in entry.name)
    first = [entry for entry in models if "-of-" not in entry.stem or "-00001-of-" in entry.stem]
    if len(first) == 1:
        from kvlab.source.gguf_model import load_gguf

        return load_gguf(first[0])
    if len(first) > 1:
        raise BadInput(f"{path} holds {len(first)} GGUF models; give one: {', '.join(e.name for e in first[:4])}")
    held = sorted(entry.name for entry in path.iterdir())
    raise BadInput(f"{path} has no config.json and no GGUF file; it holds {listed(held, 6) or 'nothing'}")
