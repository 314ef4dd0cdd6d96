"""Server-sent events out of a byte stream, whatever way the network cuts it."""

from __future__ import annotations


class EventSplitter:
    """Collects bytes and hands out the `data` of each event once its closing blank line has arrived.

    Lines may end in LF, CR LF or CR. Comments and the fields event, id and retry are skipped. Payloads stay bytes, so
    a chunk boundary inside a UTF-8 character does no harm.
    Source: WHATWG HTML, section 9.2.6 "Interpreting an event stream".
    """

    __slots__ = ("_after_cr", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._after_cr = False

    @property
    def waiting(self) -> int:
        """Bytes of an event whose end has not arrived."""
        return len(self._rest)

    def feed(self, chunk: bytes) -> list[bytes]:
        """The payloads that `chunk` completes, in order."""
        if self._after_cr or b"\r" in chunk:
            chunk = self._with_lf(chunk)
        if self._rest:
            chunk = self._rest + chunk
        if b"\n\n" not in chunk:
            self._rest = chunk
            return []
        *events, self._rest = chunk.split(b"\n\n")
        return [payload for event in events if (payload := _data(event)) is not None]

    def close(self) -> list[bytes]:
        """The payload of a last event that the server did not end with a blank line."""
        payload = _data(self._rest)
        self._rest = b""
        return [] if payload is None else [payload]

    def _with_lf(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            if not chunk:
                self._after_cr = False
                return chunk
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _data(event: bytes) -> bytes | None:
    # Nearly every event is one line "data: {...}".
    if event.startswith(b"data: ") and b"\n" not in event:
        return event[6:]
    lines = []
    for line in event.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value[1:] if value.startswith(b" ") else value)
    return b"\n".join(lines) if lines else None
