"""Report certificates that have ended, or soon will."""

from __future__ import annotations

import time
from collections.abc import Sequence

from sluicegate.plugins import Trouble

SOON_S = 7 * 86_400.0
"""A certificate that expires within this time is reported."""


def expiring(named: str, ends_s: float, remedy: str) -> Sequence[Trouble]:
    """Return the trouble with a certificate that ends at `ends_s`, in Unix seconds; none where that is far away."""
    left_s = ends_s - time.time()
    if left_s >= SOON_S:
        return ()
    when = "has ended" if left_s < 0 else f"ends in {left_s / 86_400:.1f} days"
    return (Trouble(f"{named} {when}; {remedy}"),)
