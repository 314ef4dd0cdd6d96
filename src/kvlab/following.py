"""The log of an engine that runs elsewhere, while it grows: a file, or standard input (`kubectl logs -f POD |`)."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from types import TracebackType
from typing import BinaryIO, Self

from kvlab import store
from kvlab.core.errors import BadInput
from kvlab.core.observation import Observation
from kvlab.failing import Failing
from kvlab.logs.writer import recognised
from kvlab.observe import read_log

_PIECE = 1 << 16
_HEAD = 1 << 20
"""Bytes among which a line must stand that tells the engine."""
_SPOOLED = 256 << 20
"""Bytes of standard input that are kept on disk to be read: a start says what it has in the first few."""
_QUIET_SECONDS = 1.0
"""A log that says nothing for so long has been read up to now."""
_MOST_SECONDS = 60.0
_PAUSE = 0.25


class Following:
    """A log that a thread reads on. Use as a context manager; `failing` tells what its lines say went wrong."""

    def __init__(self, path: str, engine: str | None = None) -> None:
        """Raises BadInput when the log cannot be read, or no engine is called that."""
        self.failing = None if engine is None else Failing(engine)
        self._source, self._path, self._piped = _opened(path)
        self._spool = _spool() if self._piped else None
        self._spooled = 0
        self._head = b""
        self._rest = b""
        self._closed = False
        self.ended = False
        """Whether the pipe that it came through is closed: with `kubectl logs -f`, the pod has gone."""
        self._last_piece = time.monotonic()
        self._thread = threading.Thread(target=self._read_on, daemon=True)
        self._thread.start()

    def observation(self, engine: str | None) -> Observation:
        """What the log states up to now: waits until it says nothing more for a second, or has ended.

        Raises BadInput as `read_log` does.
        """
        begun = time.monotonic()
        while not self.ended and time.monotonic() - begun < _MOST_SECONDS:
            if self._head and time.monotonic() - self._last_piece > _QUIET_SECONDS:
                break
            time.sleep(_PAUSE)
        if not self._head:
            raise BadInput(f"{self._path} is empty; give the engine's log from its start on")
        if self._spool is None:
            return read_log(self._path, engine)
        self._spool.flush()
        try:
            return read_log(self._spool.name, engine)
        except BadInput as problem:
            raise BadInput(str(problem).replace(self._spool.name, "standard input")) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        if self._spool is not None:
            with suppress(OSError):
                self._spool.close()

    def _read_on(self) -> None:
        with suppress(OSError, ValueError):  # closed meanwhile
            while not self._closed:
                piece = os.read(self._source.fileno(), _PIECE)
                if piece:
                    self._take(piece)
                elif self._piped:
                    break
                else:
                    time.sleep(_PAUSE)
        self.ended = True

    def _take(self, piece: bytes) -> None:
        if len(self._head) < _HEAD:
            self._head += piece
            if self.failing is None and (name := recognised(self._head)) is not None:
                self.failing = Failing(name)
        if self._spool is not None and self._spooled < _SPOOLED:
            self._spool.write(piece)
            self._spooled += len(piece)
        *lines, self._rest = (self._rest + piece).split(b"\n")
        self._rest = self._rest[-_PIECE:]
        if self.failing is not None:
            for line in lines:
                self.failing.feed(line.decode("utf-8", "replace"))
        self._last_piece = time.monotonic()


def _opened(path: str) -> tuple[BinaryIO, str, bool]:
    """The log, what it is called, and whether it is standard input."""
    if path != "-":
        return os.fdopen(store.open_regular(path, "log"), "rb", buffering=0), path, False
    if sys.stdin is None or sys.stdin.isatty():
        raise BadInput("nothing is piped into standard input; as in: kubectl logs -f POD | kvlab serve ... --log -")
    return sys.stdin.buffer, "standard input", True


def _spool() -> BinaryIO:
    from tempfile import NamedTemporaryFile

    return NamedTemporaryFile(prefix="kvlab-", suffix=".log")  # type: ignore[return-value]
