"""Numbers in messages and tables, as people write them."""

from __future__ import annotations

MOST_EXACT = 2**53
"""Up to here a float holds every whole number."""


def plain(value: float) -> str:
    """Return a whole number with all its digits, where the format `g` gives `1e+15`, and 1234567 as `1.23457e+06`; any
    other below a million with six digits, above it with two places."""
    if abs(value) <= MOST_EXACT and value == int(value):
        return str(int(value))
    return f"{value:.2f}" if 1e6 <= abs(value) <= MOST_EXACT else f"{value:g}"
