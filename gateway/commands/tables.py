"""Tables and dates for people on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as text. Columns are as wide as their widest cell; an empty cell is a dash, and numbers stand on
    the right. What a terminal would obey is written out: names may come from anybody."""
    cells = [[_visible(str(cell)) if cell not in (None, "") else "-" for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)]
    right = [bool(rows) and all(isinstance(row[at], int | float) for row in rows) for at in range(len(head))]
    return "\n".join(_line(row, widths, right) for row in (head, *cells))


def date(moment_s: float | None) -> str:
    """Return date and time of a moment as `time.time()` gives it, in UTC; empty for None."""
    return "" if moment_s is None else f"{datetime.fromtimestamp(moment_s, UTC):%Y-%m-%d %H:%M}"


def _visible(text: str) -> str:
    """Return `text` with characters that are not printable as escapes."""
    if text.isprintable():
        return text
    return "".join([char if char.isprintable() else ascii(char)[1:-1] for char in text])


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    told = zip(cells, widths, right, strict=True)
    return "  ".join(cell.rjust(width) if is_number else cell.ljust(width) for cell, width, is_number in told).rstrip()
