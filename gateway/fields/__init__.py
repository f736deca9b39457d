"""One table of every field of a request that we know of: which dialect serves it, refuses it or reports it, and why."""

from sluicegate.gateway.fields.row import DIALECTS, Dialect, Drawn, Row, Status, asks
from sluicegate.gateway.fields.sampling import DRAWING
from sluicegate.gateway.fields.table import FORWARDED, TABLE, drawn_in, rows_of

__all__ = [
    "DIALECTS",
    "DRAWING",
    "FORWARDED",
    "TABLE",
    "Dialect",
    "Drawn",
    "Row",
    "Status",
    "asks",
    "drawn_in",
    "rows_of",
]
