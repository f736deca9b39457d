"""How long another server asks to be left alone."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_RETRY_S = 3600.0


def retry_after(header: str, date: str = "") -> float | None:
    """Parse `Retry-After` in seconds, at most an hour; None where there is none that can be read. `date`: when the
    answer was sent by the server's own clock, to which a date in `header` belongs."""
    try:
        found = float(header) if header else math.nan
    except ValueError:
        found = _seconds_until(header, date)
    return min(max(0.0, found), LONGEST_RETRY_S) if not math.isnan(found) else None


def _seconds_until(then: str, now: str) -> float:
    """Return the seconds between two dates of HTTP, from our own clock where the second is none; NaN where `then` is
    none."""
    until = _date(then)
    return math.nan if until is None else (until - (_date(now) or datetime.now(UTC))).total_seconds()


def _date(text: str) -> datetime | None:
    try:
        found = parsedate_to_datetime(text)
    except (ValueError, OverflowError):  # no date, or one of a year that none has
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
