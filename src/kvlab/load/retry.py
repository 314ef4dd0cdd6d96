"""When a request that the server was too busy for is sent again."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

BUSY = (429, 503)
"""Statuses that ask to come back later (RFC 6585, section 4; RFC 9110, section 15.6.4)."""
_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0


def retry_after(text: str | None, now: datetime | None = None) -> float | None:
    """Seconds of a Retry-After header, a number or a date (RFC 9110, section 10.2.3); None for none that is one."""
    stated = (text or "").strip()
    try:
        seconds = float(stated)
    except ValueError:
        try:
            moment = parsedate_to_datetime(stated)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            seconds = (moment - (now or datetime.now(UTC))).total_seconds()
        except (ValueError, OverflowError):  # no date, or one of a year that there is not
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def pause(stated: float | None, tries: int) -> float:
    """Seconds to wait after `tries` tries: what the server stated, else 1, 2, 4 ... up to 30."""
    return min(_FIRST_PAUSE * 2.0 ** min(tries - 1, 10), _LONGEST_PAUSE) if stated is None else stated
