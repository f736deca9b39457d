"""The table as a whole, and the ways to look into it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from sluicegate.gateway.fields.nested import INSIDE
from sluicegate.gateway.fields.row import Dialect, Drawn, Row
from sluicegate.gateway.fields.sampling import DRAWING
from sluicegate.gateway.fields.shaping import SHAPING
from sluicegate.gateway.fields.unsupported import FOREIGN

TABLE: tuple[Row, ...] = (*SHAPING, *DRAWING, *INSIDE, *FOREIGN)
FORWARDED: tuple[Drawn, ...] = tuple(row for row in DRAWING if row.upstream is not None)
"""One row for each attribute of `Sampling`: how it is sent on to another server, or that it cannot be."""
BY_HAND = frozenset({"logprobs", "top_logprobs", "sluicegate.on_length"})
"""Rows whose attribute takes more than one field to know; the dialects' parsers do it."""


@cache
def rows_of(dialect: Dialect) -> Mapping[str, Row]:
    """By path. A field may have several rows, each for other dialects."""
    return {row.path: row for row in TABLE if dialect in row.status}


@cache
def drawn_in(dialect: Dialect) -> Mapping[str, Drawn]:
    """Fields of this dialect that become attributes of `Sampling` as they are."""
    return {row.path: row for row in DRAWING if row.status.get(dialect) == "served" and row.path not in BY_HAND}
