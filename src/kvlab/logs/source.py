"""A log of any size and packing, block by block: compressed, UTF-16, coloured, with any line ends."""

from __future__ import annotations

import codecs
import io
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from typing import cast

from kvlab import store
from kvlab.core.errors import BadInput

BLOCK_BYTES = 1 << 20
_PACKED = ((b"\x1f\x8b", "gzip"), (b"\x28\xb5\x2f\xfd", "zstd"), (b"\xfd7zXZ\x00", "xz"), (b"BZh", "bzip2"))
_COLOUR = re.compile(
    rb"\x1b\[[0-9;:?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][0AB]"
    rb"|(?:#033|\^\[|\\u001[bB])\[[0-9;]*[mK]"
)
_COLOUR_BEGINS = (b"\x1b", b"#033[", b"^[[", b"\\u001")
"""As the terminal has it, as rsyslog writes it, as `cat -v` shows it, and in JSON."""


@contextmanager
def opened(path: str) -> Iterator[BufferedIOBase]:
    """The log at `path` ("-": standard input), unpacked when it is gzip, zstd, xz or bzip2.

    Raises BadInput when it is no file that can be read.
    """
    if path == "-":
        if sys.stdin is None:
            raise BadInput("standard input is closed; pipe the log into it, or give a log file")
        yield _unpacked(cast(BufferedIOBase, sys.stdin.buffer), "standard input")
        return
    if path.startswith(("http://", "https://")):
        # Not repeated: a user name and password may stand in it.
        raise BadInput("an address was given where the engine's log is read: a file, or - for standard input")
    with os.fdopen(store.open_regular(path, "log", piped=True), "rb") as file:
        yield _unpacked(file, path)


def _unpacked(file: BufferedIOBase, path: str) -> BufferedIOBase:
    peeked = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast(io.RawIOBase, file))
    begin = peeked.peek(8)[:8]
    packing = next((name for magic, name in _PACKED if begin.startswith(magic)), None)
    if packing == "gzip":
        import gzip

        return gzip.GzipFile(fileobj=peeked)
    if packing == "xz":
        import lzma

        return lzma.LZMAFile(peeked)
    if packing == "bzip2":
        import bz2

        return bz2.BZ2File(peeked)
    if packing == "zstd":
        try:
            import zstandard
        except ModuleNotFoundError:
            raise BadInput(f"{path} is packed with zstd; install kvlab[traffic], or unpack it: zstd -d") from None
        return cast(BufferedIOBase, zstandard.ZstdDecompressor().stream_reader(peeked, read_across_frames=True))
    return peeked


def blocks(file: BufferedIOBase, path: str) -> Iterator[bytes]:
    """Whole lines, about a megabyte at a time, as UTF-8 without colours, "\\n" at their ends.

    A longer line comes in pieces, and the end of a log may lack its "\\n": then it may be cut. Raises BadInput for a
    packed file of which nothing can be read; of one that is cut short, what came before counts.
    """
    held, lone_returns = bytearray(), None
    for piece in _decoded(file, path):
        held += piece
        if len(held) >= BLOCK_BYTES:
            end = held.rfind(b"\n") + 1 or len(held)
            block = bytes(held[:end])
            lone_returns = _lone_returns(block) if lone_returns is None else lone_returns
            yield _plain(block, lone_returns=lone_returns)
            del held[:end]
    if held:
        block = bytes(held)
        yield _plain(block, lone_returns=_lone_returns(block) if lone_returns is None else lone_returns)


def _decoded(file: BufferedIOBase, path: str) -> Iterator[bytes]:
    """The log as UTF-8. Windows PowerShell's `>` writes UTF-16."""
    decoder = None
    for at, piece in enumerate(_pieces(file, path)):
        if at == 0:
            if piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and 0 in piece[:64]:
                decoder = codecs.getincrementaldecoder("utf-16")("replace")
            elif len(piece) >= 16 and not any(piece[1:64:2]) and all(piece[0:64:2]):  # its mark is cut off
                decoder = codecs.getincrementaldecoder("utf-16-le")("replace")
        plain = piece if decoder is None else decoder.decode(piece).encode("utf-8", "replace")
        yield plain.removeprefix(codecs.BOM_UTF8) if at == 0 else plain


def _pieces(file: BufferedIOBase, path: str) -> Iterator[bytes]:
    read = False
    while True:
        try:
            piece = file.read1(BLOCK_BYTES)
        except Exception as error:
            if not _damaged(error):
                raise
            if read:
                return
            raise BadInput(f"{path} is a damaged packed file ({error}); copy the log again") from None
        if not piece:
            return
        read = True
        yield piece


def _damaged(error: Exception) -> bool:
    """Whether an unpacker says that its input is broken or ends too soon."""
    if isinstance(error, OSError):
        return error.errno is None  # gzip's and bzip2's own; the machine's have a number
    return isinstance(error, EOFError | zlib.error) or type(error).__name__ in ("LZMAError", "ZstdError")


def _lone_returns(block: bytes) -> bool:
    """Whether carriage returns alone end the lines of a log that begins so."""
    return b"\n" not in block and block.count(b"\r") > 1


def _plain(block: bytes, *, lone_returns: bool) -> bytes:
    if any(begin in block for begin in _COLOUR_BEGINS):
        block = _COLOUR.sub(b"", block)
    return block.replace(b"\r", b"\n") if lone_returns else block.replace(b"\r\n", b"\n")
