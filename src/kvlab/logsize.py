"""Logs that grow for weeks."""

from __future__ import annotations

from pathlib import Path

MOST_BYTES = 512 << 20
"""Above this, a log that is being watched loses its middle."""
KEPT_BYTES = 64 << 20
"""Bytes that are left of its start, where the engine says what it has."""


def shorten(log: Path) -> bool:
    """Cuts a log that is too large after its start, and says whether it was. Its writer must append to it.

    The last of what is cut off is put beside it, as NAME.earlier. A line that comes in this very moment may be lost.
    """
    size = log.stat().st_size
    if size <= MOST_BYTES:
        return False
    earlier = log.with_name(f"{log.name}.earlier")
    with log.open("rb+") as file:
        left = file.read(KEPT_BYTES).rfind(b"\n") + 1
        file.seek(size - KEPT_BYTES)
        earlier.write_bytes(file.read())
        file.truncate(left)
    with log.open("ab") as file:
        file.write(f"kvlab: {size - left:,} bytes were cut off here; the last of them are in {earlier.name}\n".encode())
    return True
