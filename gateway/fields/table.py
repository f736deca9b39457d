"""The whole table of fields, and the rows of one dialect."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from sluicegate.gateway.fields.nested import NESTED
from sluicegate.gateway.fields.row import Row, SamplingRow
from sluicegate.gateway.fields.sampling import SAMPLING
from sluicegate.gateway.fields.shaping import SHAPING
from sluicegate.gateway.fields.unsupported import UNSUPPORTED

PARTS: Mapping[str, tuple[Row, ...]] = {
    "How tokens are drawn": SAMPLING,
    "What is read, and what comes back": SHAPING,
    "Inside fields": NESTED,
    "Fields of other servers that are not served": UNSUPPORTED,
}
TABLE: tuple[Row, ...] = tuple(row for rows in PARTS.values() for row in rows)
FORWARDED: tuple[SamplingRow, ...] = tuple(row for row in SAMPLING if row.upstream is not None)
"""One row for each attribute of `Sampling`: how it is sent on to another server, or that it cannot be."""


@cache
def rows_of(dialect: str) -> Mapping[str, Row]:
    """Return the rows of a dialect by path. A field may have several rows, each for other dialects."""
    return {row.path: row for row in TABLE if row.support.of(dialect) is not None}
