"""What is shown and measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from sluicegate.plugins import Within


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Where traces and metrics go is said by the standard `OTEL_...` variables."""

    console: bool = True
    """Serve the page `/console`."""
    content: bool = False
    """Put prompts and answers, after the rails, into traces and the console."""
    recent: int = 500
    """Finished requests that the console can show in full from memory."""
    history: str = ""
    """A folder for what the console shows, which then outlives the process; empty = it is gone at the end."""
    history_rows: Annotated[int, Within(1, 10_000_000)] = 100_000
    """Requests in it; without a folder, lines of the newest 10,000 are kept."""
    history_bytes: Annotated[int, Within(1_000_000, 10**13)] = 256 * 1024**2
    """And their bytes; the oldest go first."""
    history_days: Annotated[float, Within(0.001, 3650)] = 30.0
    """And how long each is kept."""
    history_secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: requests in full are encrypted under it, and only then texts that a rail
    withheld are kept in the folder."""
    evaluations: str = ""
    """A folder of reports that `sluicegate eval --save` wrote, for the console; empty = none."""
    label_values: int = 100
    """Values that one label of a metric may have; all others are counted as `other`."""
    slo_first_s: float = 1.0
    """A request counts as goodput when its first text left within this,"""
    slo_token_s: float = 0.1
    """every further token took no longer than this on average,"""
    slo_total_s: float = 30.0
    """and it was whole within this."""
