"""Usage as rows: JSON for programs, CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from sluicegate.gateway.accounts.records import NANOS, USAGE_FIELDS, UsageSum, UsageTable, add_usage
from sluicegate.gateway.accounts.records import UsageKey as Key
from sluicegate.plugins import RequestError

DIMENSIONS = ("day", "key_id", "team", "feature", "model")


def rows(table: UsageTable, by: Sequence[str], currency: str) -> list[dict[str, Any]]:
    """Add up `table` by the dimensions `by` and return the rows, ordered by them. Raises `RequestError` for an unknown
    dimension."""
    for name in by:
        if name not in DIMENSIONS:
            raise RequestError(f"`by` has no {name!r}; valid names: {', '.join(DIMENSIONS)}", param="by")
    sums: UsageTable = {}
    for key, usage in table.items():
        add_usage(sums, Key(*(getattr(key, name) if name in by else "" for name in DIMENSIONS)), usage)
    ordered = sorted(sums.items(), key=lambda item: tuple(getattr(item[0], name) for name in by))
    return [_row(key, usage, by, currency) for key, usage in ordered]


def as_csv(found: Sequence[dict[str, Any]], by: Sequence[str]) -> str:
    out = io.StringIO()
    fields = [*by, *(name for name in USAGE_FIELDS if name != "cost_nanos"), "cost", "currency"]
    writer = csv.DictWriter(out, fields, lineterminator="\n")
    writer.writeheader()
    for row in found:
        writer.writerow({name: _harmless(value) for name, value in row.items()})
    return out.getvalue()


def _row(key: Key, usage: UsageSum, by: Sequence[str], currency: str) -> dict[str, Any]:
    found: dict[str, Any] = {name: getattr(key, name) for name in by}
    found |= {name: getattr(usage, name) for name in USAGE_FIELDS if name != "cost_nanos"}
    return found | {"cost": usage.cost_nanos / NANOS, "currency": currency}


def _harmless(value: Any) -> Any:
    """Escape text that a spreadsheet would take for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
