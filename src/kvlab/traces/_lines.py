"""Lines of a trace file, plain, gzip or Zstandard, with a bound on the length of a line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from kvlab.core.errors import BadInput
from kvlab.store import open_regular

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer
    from zstandard import ZstdDecompressionObj

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_STEP = 2048
"""Compressed bytes that are taken at once: Zstandard may make 32,768 of each."""


def lines(path: Path, longest: int) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line without its end). A longer line comes cut to `longest` + 1 bytes, its rest is skipped.

    Raises BadInput for a file that is missing, no regular file, or damaged in its compression.
    """
    with opened(path) as file:
        number = 0
        try:
            while line := file.readline(longest + 1):
                number += 1
                yield number, line.rstrip(b"\r\n")
                while not line.endswith(b"\n") and line:
                    line = file.readline(longest + 1)
        except (OSError, EOFError, ValueError) as problem:
            raise BadInput(f"{path} is damaged after line {number:,}: {problem}; copy it again") from None


def packed(path: Path, content: bytes) -> bytes:
    """The content as a file of that name holds it: gzip for .gz, Zstandard for .zst."""
    if path.suffix == ".gz":
        import gzip

        return gzip.compress(content, mtime=0)
    if path.suffix == ".zst":
        import zstandard

        return zstandard.compress(content)
    return content


@contextmanager
def opened(path: Path, what: str = "trace") -> Iterator[IO[bytes]]:
    """The content of the file at `path`, unpacked; `what` it is called in errors.

    Raises BadInput for a file that is missing or no regular file. What reads from it raises OSError, EOFError or
    ValueError where the compression is damaged or ends too early.
    """
    with os.fdopen(open_regular(path, what), "rb") as raw:
        yield _plain(raw, path)


def compressed(path: Path) -> bool:
    """Whether the file's first bytes are those of gzip or Zstandard."""
    with os.fdopen(open_regular(path, "trace"), "rb") as raw:
        mark = raw.read(4)
    return mark.startswith(_GZIP) or mark == _ZSTD


def _plain(raw: IO[bytes], path: Path) -> IO[bytes]:
    """The file's content, decompressed by what its first bytes say rather than its name."""
    mark = raw.read(4)
    raw.seek(0)
    if mark.startswith(_GZIP):
        import gzip

        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if mark == _ZSTD:
        return BufferedReader(_Zstandard(raw, path))
    return raw


class _Zstandard(RawIOBase):
    """All frames of a Zstandard file, one after the other; the library's own reader takes a cut frame for a whole one.

    Reading raises EOFError when the last frame is cut, ValueError when one is damaged. Raises BadInput when the library
    is not installed.
    """

    def __init__(self, raw: IO[bytes], path: Path) -> None:
        try:
            import zstandard
        except ImportError:
            raise BadInput(f"{path} is Zstandard; pip install 'kvlab[traffic]' to read it") from None
        self._raw, self._library = raw, zstandard
        self._frame: ZstdDecompressionObj | None = None
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        into = memoryview(buffer).cast("B")
        left = b""
        while not self._ready:
            packed = left or self._raw.read(_STEP)
            if not packed and self._frame is not None:
                raise EOFError("the file ends within its compression")
            if not packed:
                return 0
            left = self._unpack(packed)
        count = min(len(into), len(self._ready))
        into[:count] = self._ready[:count]
        self._ready = self._ready[count:]
        if left:
            self._raw.seek(-len(left), os.SEEK_CUR)
        return count

    def _unpack(self, packed: bytes) -> bytes:
        """Unpacks into `_ready`; what follows the end of the frame is returned."""
        frame = self._frame or self._library.ZstdDecompressor().decompressobj()
        try:
            self._ready = memoryview(frame.decompress(packed))
        except self._library.ZstdError as problem:
            raise ValueError(str(problem)) from None
        self._frame = None if frame.eof else frame
        return frame.unused_data if frame.eof else b""
