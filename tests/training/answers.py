"""What the strings of an answer owe to their document."""

from __future__ import annotations

import datetime
from typing import Any

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


def strings_of(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for item in value.values() for text in strings_of(item)]
    if isinstance(value, list):
        return [text for item in value for text in strings_of(item)]
    return [value] if isinstance(value, str) else []


def is_written_date(text: str, document: str) -> bool:
    """Return whether `text` is a date whose year, day and month (as a number or by name) the document holds."""
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        return False
    months = {f"{day.month:02d}", MONTHS[day.month - 1]}
    return f"{day.year}" in document and str(day.day) in document and any(m in document.lower() for m in months)
