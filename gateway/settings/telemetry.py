"""What is shown and measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from sluicegate.plugins import Within
from sluicegate.plugins.contract.disk_paths import MaybeFolder, WrittenFolder


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Where traces and metrics go is said by the standard `OTEL_...` variables."""

    console: bool = True
    """Serve the page `/console`."""
    content: bool = False
    """Include prompts and answers, after the rails, in traces and the console."""
    recent: Annotated[int, Within(0, 1_000_000)] = 500
    """Finished requests kept in memory that the console can show in full."""
    history: WrittenFolder = ""
    """Folder for the console's history, which then survives restarts; empty = it is lost when the process ends."""
    history_rows: Annotated[int, Within(1, 10_000_000)] = 100_000
    """Most requests in it; without a folder, lines of the newest 10,000 are kept."""
    history_bytes: Annotated[int, Within(1_000_000, 10**13)] = 256 * 1024**2
    """Most bytes of it; the oldest requests are removed first."""
    history_days: Annotated[float, Within(0.001, 3650)] = 30.0
    """How long a request is kept in it."""
    history_secret: str = field(default="", repr=False)
    """Hexadecimal, at least 32 bytes: full accounts of requests are encrypted under it. Only with it are texts that a
    rail withheld kept in the folder."""
    evaluations: MaybeFolder = ""
    """Folder of reports written by `sluicegate eval --save`, for the console; empty = none."""
    label_values: int = 100
    """Most values of one label of a metric; all others are counted as `other`."""
    slo_first_s: float = 1.0
    """A request counts as goodput if its first text was sent within this,"""
    slo_token_s: float = 0.1
    """every further token took at most this long on average,"""
    slo_total_s: float = 30.0
    """and it was complete within this."""
