"""Weightless GGUF files: true metadata and tensor shapes, sparse tensor data."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

Shape = tuple[tuple[int, ...], int]
"""Dimensions and ggml type (0: f32, 1: f16)."""
ELEMENT = {0: 4, 1: 2}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def typed(value: object) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    assert isinstance(value, list)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(item) for item in value)
    form, kind = ("?", 7) if isinstance(value[0], bool) else ("f", 6) if isinstance(value[0], float) else ("I", 4)
    return struct.pack(f"<IIQ{len(value)}{form}", 9, kind, len(value), *value)


def write(path: Path, arch: str, keys: Mapping[str, object], tensors: Mapping[str, Shape] | None = None) -> Path:
    """A little-endian version 3 file. `keys` go under the architecture's prefix unless they hold a dot-free prefix."""
    metadata = {"general.architecture": arch, **{f"{arch}.{key}": value for key, value in keys.items()}}
    metadata["tokenizer.ggml.tokens"] = ["<s>", "</s>", "a"]
    shapes = tensors or {"token_embd.weight": ((64, 3), 1)}
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(shapes), len(metadata))
    header += b"".join(text(key) + typed(value) for key, value in metadata.items())
    offset = 0
    for name, (dims, kind) in shapes.items():
        header += text(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        values = 1
        for dim in dims:
            values *= dim
        offset += (values * ELEMENT[kind] + 31) // 32 * 32
    start = (len(header) + 31) // 32 * 32
    with path.open("wb") as file:
        file.write(header)
        file.truncate(start + offset)
    return path
