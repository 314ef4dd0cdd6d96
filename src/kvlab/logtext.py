"""Logs of any size and wrapping, block by block: compressed, UTF-16, coloured, wrapped in JSON."""

from __future__ import annotations

import codecs
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from typing import cast

import msgspec

from kvlab import store
from kvlab.core.errors import BadInput

BLOCK_BYTES = 1 << 20
LONGEST_LINE = 1 << 14
"""Bytes of a line that are looked at, around what is sought in it."""
_COLOUR = re.compile(rb"\x1b\[[0-9;:?]*[A-Za-z]|#033\[[0-9;]*m")
_MESSAGE_KEYS = ("log", "message", "msg", "MESSAGE", "line")
"""Where Docker, Kubernetes collectors, journald's JSON and llama.cpp's JSON lines keep the engine's own line."""


@contextmanager
def opened(path: str) -> Iterator[BufferedIOBase]:
    """The log at `path` ("-": standard input), unpacked when it is gzip.

    Raises BadInput when it is no file that can be read.
    """
    if path == "-":
        if sys.stdin is None:
            raise BadInput("standard input is closed; pipe the log into it, or give a log file")
        yield cast(BufferedIOBase, sys.stdin.buffer)
        return
    if path.startswith(("http://", "https://")):
        # Not repeated: a user name and password may stand in it.
        raise BadInput("an address was given; explain reads the engine's log: a file, or - for standard input")
    with os.fdopen(store.open_regular(path, "log"), "rb") as file:
        if file.peek(2)[:2] != b"\x1f\x8b":
            yield file
            return
        import gzip

        with gzip.GzipFile(fileobj=file) as unpacked:
            yield unpacked


def blocks(file: BufferedIOBase, path: str) -> Iterator[bytes]:
    """Whole lines, about a megabyte at a time, as UTF-8 without colours. A longer line comes in pieces.

    Raises BadInput for a gzip file of which nothing can be read; of one that is cut short, what came before counts.
    """
    held, decoder = bytearray(), None
    for at, piece in enumerate(_pieces(file, path)):
        if at == 0 and piece.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            decoder = codecs.getincrementaldecoder("utf-16")("replace")  # Windows PowerShell's `>` writes it
        held += piece if decoder is None else decoder.decode(piece).encode("utf-8", "replace")
        if len(held) >= BLOCK_BYTES:
            end = held.rfind(b"\n") + 1 or len(held)
            yield _plain(bytes(held[:end]))
            del held[:end]
    if held:
        yield _plain(bytes(held))


def _pieces(file: BufferedIOBase, path: str) -> Iterator[bytes]:
    read = False
    while True:
        try:
            piece = file.read1(BLOCK_BYTES)
        except (EOFError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            if read:
                return
            raise BadInput(f"{path} is a damaged gzip file ({error}); copy the log again") from None
        if not piece:
            return
        read = True
        yield piece


def _plain(block: bytes) -> bytes:
    return _COLOUR.sub(b"", block) if b"\x1b" in block or b"#033[" in block else block


def line_around(block: bytes, at: int) -> tuple[int, int]:
    """Where the line that holds `at` starts and ends; of a very long one, the part around it.

    A carriage return ends a line too: progress bars write over themselves with it.
    """
    low, high = max(0, at - LONGEST_LINE), min(len(block), at + LONGEST_LINE)
    start = max(block.rfind(b"\n", low, at), block.rfind(b"\r", low, at)) + 1 or low
    ends = [end for end in (block.find(b"\n", at, high), block.find(b"\r", at, high)) if end >= 0]
    return start, min(ends, default=high)


def text_of(line: bytes) -> str:
    """A line as text, taken out of the JSON that a collector wrapped it in."""
    text = line.decode("utf-8", "replace")
    if not text.lstrip().startswith("{"):
        return text
    try:
        wrapped: object = msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return text
    if isinstance(wrapped, dict):
        for key in _MESSAGE_KEYS:
            if isinstance(inner := wrapped.get(key), str):
                return inner
    return text


def plain(text: str) -> str:
    """`text` with control characters written out (\\x1b, \\u202e); a tab is a space."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text.replace("\t", " "))


def shown(text: str, at: int, limit: int = 400) -> str:
    """What a person is shown of a line: at most `limit` of its characters around `at`."""
    start = max(0, min(at - limit // 4, len(text) - limit))
    part = plain(text[start : start + limit]).strip()
    return f"{'... ' if start else ''}{part}{' ...' if start + limit < len(text) else ''}"
