"""Text on standard error: what files, servers and people gave may carry terminal commands, and passwords."""

from __future__ import annotations

import sys
from contextlib import suppress

from kvlab.core.masking import masked


def one_line(text: str) -> str:
    """`text` as one line that a terminal shows and does not obey, no password or key in it."""
    joined = masked(" ".join(text.split()))
    return "".join(letter if letter.isprintable() else "?" for letter in joined)


def say(text: str) -> None:
    """Writes one line of progress, or an error, to standard error."""
    with suppress(OSError):  # the terminal may have gone
        sys.stderr.write(f"{one_line(text)}\n")
        sys.stderr.flush()
