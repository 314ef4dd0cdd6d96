"""The header of a GGUF file: metadata and tensor shapes, without the vocabulary and without a weight.

The `gguf` package reads every token of the vocabulary into an object (9 s for 262,144 tokens); this reader skips
arrays it is not asked for. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import mmap
import os
import struct
from pathlib import Path

import msgspec

from kvlab import store
from kvlab.core.errors import BadInput

VERSIONS = (2, 3)
_MOST_KEYS, _MOST_TENSORS, _MOST_DIMS = 100_000, 1_000_000, 4
_LONGEST_ARRAY = 10_000
"""Arrays of one value a layer are kept; longer ones are vocabularies."""
_LONGEST_HEADER = 256 << 20
"""Far above a vocabulary, its merges and the names of all tensors; a longer header is not walked through."""
_STRING, _ARRAY = 8, 9
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
# fmt: off
BLOCKS = {
    # ggml type: (values in a block, bytes of a block), from the type traits of ggml.c.
    0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 40),
    10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292),
    16: (256, 66), 17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82),
    23: (256, 136), 24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2),
    34: (256, 54), 35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18),
}
# fmt: on


class Header(msgspec.Struct, frozen=True):
    """What a GGUF file states before its tensor data."""

    metadata: dict[str, object]
    tensor_bytes: int
    """Bytes of all tensors in this file, without the padding between them."""
    tensors: int
    sizes: tuple[tuple[str, int, int], ...] = ()
    """Name, values and bytes of every tensor."""


class Skipped(msgspec.Struct, frozen=True):
    """An array that was not read: a vocabulary."""

    length: int


class _Reader:
    """Values at a moving position of a file. Raises BadInput at the end of the file, or of any believable header."""

    def __init__(self, data: mmap.mmap, where: str) -> None:
        self.data, self.where, self.at = data, where, 0
        self.end = min(len(data), _LONGEST_HEADER)

    def scalar(self, form: str) -> int | float | bool:
        value: int | float | bool
        try:
            (value,) = struct.unpack_from(form, self.data, self.at)
        except struct.error:
            raise self.cut_short() from None
        self.at += struct.calcsize(form)
        return value

    def count(self, form: str = "<Q") -> int:
        return int(self.scalar(form))

    def string(self) -> str:
        length = self.count()
        self.skip(length)
        return self.data[self.at - length : self.at].decode("utf-8", "replace")

    def skip(self, length: int) -> None:
        if length > self.end - self.at:
            raise self.cut_short()
        self.at += length

    def cut_short(self) -> BadInput:
        if self.end < len(self.data):
            return BadInput(f"{self.where} is damaged: its header is longer than {self.end:,} bytes; fetch it again")
        return BadInput(
            f"{self.where} is cut short or damaged: its header goes on after the last of its {len(self.data):,} bytes;"
            " fetch it again"
        )

    def value(self) -> object:
        """The next metadata value."""
        kind = self.count("<I")
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self.array()
        if kind not in _SCALARS:
            raise BadInput(f"{self.where} is damaged: metadata type {kind} does not exist; fetch it again")
        return self.scalar(_SCALARS[kind])

    def array(self) -> list[object] | Skipped:
        kind, length = self.count("<I"), self.count()
        if kind in _SCALARS:
            form = _SCALARS[kind]
            if length > _LONGEST_ARRAY:
                self.skip(length * struct.calcsize(form))
                return Skipped(length)
            return [self.scalar(form) for _ in range(length)]
        if kind != _STRING:
            raise BadInput(f"{self.where} is damaged: an array of type {kind} does not exist; fetch it again")
        self.skip_strings(length)
        return Skipped(length)

    def skip_strings(self, count: int) -> None:
        # The one hot loop: half a million tokens and merges.
        data, at, end, unpack = self.data, self.at, self.end, struct.Struct("<Q").unpack_from
        if count * 8 > end - at:
            raise self.cut_short()
        for _ in range(count):
            if at + 8 > end:
                raise self.cut_short()
            at += 8 + unpack(data, at)[0]
        if at > end:
            raise self.cut_short()
        self.at = at


def read_header(path: Path) -> Header:
    """Metadata and tensor bytes of a GGUF file.

    Raises BadInput for a file that is no GGUF, of another version or byte order, damaged, or cut short.
    """
    with os.fdopen(store.open_regular(path, "GGUF file"), "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < 24:
            raise BadInput(f"{path} has {size} bytes and is no GGUF file; fetch it again")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _header(_Reader(data, str(path)))


def _header(reader: _Reader) -> Header:
    tensors, keys = _preamble(reader)
    metadata: dict[str, object] = {}
    for _ in range(keys):
        name = reader.string()
        metadata[name] = reader.value()
    sizes = _tensor_sizes(reader, tensors, metadata.get("general.alignment"))
    return Header(metadata, sum(held for _, _, held in sizes), tensors, tuple(sizes))


def _preamble(reader: _Reader) -> tuple[int, int]:
    """Tensor and key counts of a file whose magic, version and byte order are right."""
    where = reader.where
    if reader.data[:4] != b"GGUF":
        raise BadInput(f"{where} does not start with GGUF; it is another kind of file")
    reader.skip(4)
    version = reader.count("<I")
    if version & 0xFFFF == 0:
        raise BadInput(f"{where} is a big-endian GGUF; kvlab and this machine read little-endian ones")
    if version not in VERSIONS:
        raise BadInput(f"{where} is GGUF version {version}; kvlab reads versions 2 and 3: convert the model again")
    tensors, keys = reader.count(), reader.count()
    if tensors > _MOST_TENSORS or keys > _MOST_KEYS:
        raise BadInput(f"{where} is damaged: it states {tensors:,} tensors and {keys:,} keys; fetch it again")
    return tensors, keys


def _tensor_sizes(reader: _Reader, count: int, alignment: object) -> list[tuple[str, int, int]]:
    end, sizes = 0, []
    for _ in range(count):
        name = reader.string()
        dims = reader.count("<I")
        if dims > _MOST_DIMS:
            raise BadInput(f"{reader.where} is damaged: tensor {name[:60]!r} has {dims} dimensions; fetch it again")
        values = 1
        for _ in range(dims):
            values *= reader.count()
        kind, offset = reader.count("<I"), reader.count()
        if kind not in BLOCKS:
            raise BadInput(f"{reader.where}: tensor {name[:60]!r} has type {kind}, which kvlab does not know")
        per_block, block_bytes = BLOCKS[kind]
        held = values // per_block * block_bytes
        sizes.append((name, values, held))
        end = max(end, offset + held)
    unit = alignment if isinstance(alignment, int) and 0 < alignment <= 1 << 20 else 32
    expected = -(-reader.at // unit) * unit + end
    if expected > len(reader.data):
        raise BadInput(
            f"{reader.where} is cut short: {expected:,} bytes expected, {len(reader.data):,} found; fetch it again"
        )
    if sum(held for _, _, held in sizes) > len(reader.data):
        raise BadInput(f"{reader.where} is damaged: its tensors overlap; fetch it again")
    return sizes
