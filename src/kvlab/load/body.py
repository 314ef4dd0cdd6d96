"""A request body that knows when it was handed to the socket."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

from aiohttp.payload import BytesPayload

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter


class TimedBody(BytesPayload):
    """JSON bytes; `sent` is a `perf_counter` reading.

    aiohttp writes the body in a turn of the loop of its own. Many requests that start in one turn are all prepared
    before the first is written, so the time of the call would make each wait for the preparation of the others.
    """

    def __init__(self, value: bytes) -> None:
        super().__init__(value, content_type="application/json")
        self.sent = perf_counter()

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write all of it."""
        self.sent = perf_counter()
        await super().write_with_length(writer, content_length)
