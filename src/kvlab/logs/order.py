"""Whether a log is as its writer left it: its lines in order, and no bytes among them that no engine prints."""

from __future__ import annotations

import re

# "2026-09-03T06:08:58", "[2025-03-08 12:29:21 TP0]", "[11/12/2025-10:00:00]", "09-03 06:08:58" without its year
_DATED = re.compile(r"(\d{4}-\d\d-\d\d|\d\d/\d\d/\d{4}|\d\d-\d\d)[T -](\d\d):(\d\d):(\d\d)")
# "0.01.325.914 I ": minutes, seconds, milliseconds and microseconds since the start
_SINCE_START = re.compile(r"\b(\d+)\.([0-5]\d)\.(\d{3})\.\d{3} [A-Z] ")
_BEHIND_SECONDS = 2.0
"""How far the lines of several processes may be out of order."""
_BEHIND_SINCE_START = 0.005
_CONTROLS = bytes((*range(0x07), *range(0x0E, 0x1B), *range(0x1C, 0x20), 0x7F))


class Order:
    """Watches the clocks of the lines that it is shown. A log without clocks shows no disorder."""

    def __init__(self) -> None:
        self.lost = False
        """A line is older than one before it."""
        self._date = ""
        self._seconds = self._since_start = 0.0

    def look(self, text: str) -> None:
        """One more line."""
        if since := _SINCE_START.search(text, 0, 80):
            minutes, seconds, milliseconds = map(int, since.groups())
            at = minutes * 60 + seconds + milliseconds / 1000
            self.lost = self.lost or at < self._since_start - _BEHIND_SINCE_START
            self._since_start = max(at, self._since_start)
        elif dated := _DATED.search(text, 0, 160):
            date, *clock = dated.groups()
            at = int(clock[0]) * 3600 + int(clock[1]) * 60 + int(clock[2])
            if date == self._date:
                self.lost = self.lost or at < self._seconds - _BEHIND_SECONDS
                self._seconds = max(at, self._seconds)
            elif len(date) == len(self._date) and date < self._date and not _midnight(at, self._seconds):
                self.lost = True
            else:
                self._date, self._seconds = date, at


def _midnight(at: float, before: float) -> bool:
    """Whether the clocks of two processes may differ by a day because they tick at its end."""
    return at > 86_400 - _BEHIND_SECONDS and before < _BEHIND_SECONDS


def intact(block: bytes) -> bool:
    """Whether the block is text."""
    if len(block.translate(None, _CONTROLS)) != len(block):
        return False
    try:
        block.decode()
    except UnicodeDecodeError as error:
        # a piece of an endless line may end, or begin, within a letter
        return error.start >= len(block) - 3 and not block.endswith(b"\n")
    return True
