"""One table of every known field of a request: which dialect serves it, refuses it or reports it, and why."""

from sluicegate.gateway.fields.row import Row, SamplingRow, Status, Support, asks, says
from sluicegate.gateway.fields.sampling import MAX_CHOICES, SAMPLING
from sluicegate.gateway.fields.table import FORWARDED, PARTS, TABLE, rows_of

__all__ = [
    "FORWARDED",
    "MAX_CHOICES",
    "PARTS",
    "SAMPLING",
    "TABLE",
    "Row",
    "SamplingRow",
    "Status",
    "Support",
    "asks",
    "rows_of",
    "says",
]
