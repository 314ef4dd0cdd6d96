"""Lines of a trace file, plain, gzip or Zstandard, with a bound on the length of a line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from kvlab.core.errors import BadInput
from kvlab.store import open_regular

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def lines(path: Path, longest: int) -> Iterator[tuple[int, bytes]]:
    """(number from 1, line without its end). A longer line comes cut to `longest` + 1 bytes, its rest is skipped.

    Raises BadInput for a file that is missing, no regular file, or damaged in its compression.
    """
    with os.fdopen(open_regular(path, "trace"), "rb") as raw:
        file = _plain(raw, path)
        number = 0
        try:
            while line := file.readline(longest + 1):
                number += 1
                yield number, line.rstrip(b"\r\n")
                while not line.endswith(b"\n") and line:
                    line = file.readline(longest + 1)
        except (OSError, EOFError, ValueError) as problem:
            raise BadInput(f"{path} is damaged after line {number:,}: {problem}; copy it again") from None


def _plain(raw: IO[bytes], path: Path) -> IO[bytes]:
    """The file's content, decompressed by what its first bytes say rather than its name."""
    mark = raw.read(4)
    raw.seek(0)
    if mark.startswith(_GZIP):
        import gzip

        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    if mark == _ZSTD:
        try:
            import zstandard
        except ImportError:
            raise BadInput(f"{path} is Zstandard; pip install 'kvlab[traffic]' to read it") from None
        from io import BufferedReader

        return BufferedReader(zstandard.ZstdDecompressor().stream_reader(raw))
    return raw
