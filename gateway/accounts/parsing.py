"""Validate data from a store, a journal or an edited file before it is used."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, cast

import orjson

from sluicegate.gateway.accounts.bounds import MAX_SUM, is_count, is_name
from sluicegate.gateway.accounts.records import USAGE_FIELDS, KeyRecord, UsageKey, UsageSum, UsageTable, limits_of
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import ConfigurationError

T = TypeVar("T")
RESERVED, SETTLED = "r", "s"
Line = tuple[str, str, UsageKey, UsageSum]
MAX_RECORD_BYTES = 1 << 20
MAX_ITEMS = 1000
LISTS = ("scopes", "models", "tools", "mcp", "routes", "rails")
MOMENTS = ("created_at_s", "expires_at_s", "revoked_at_s", "previous_until_s")
_DAY = re.compile(r"\d{4}-\d\d-\d\d")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_KNOWN = frozenset(f.name for f in dataclasses.fields(KeyRecord)) - {"source"}


class ImplausibleRow(ValueError):
    """A row that this product cannot have written."""


def read_key(name: str, data: object) -> KeyRecord:
    """Return the record kept under `name`. Raises `ImplausibleRow`, also where a newer release bounds the key by a
    field unknown here: the key may then be used for less than the rest of the record says."""
    found = _object(data)
    fields = {field: value for field, value in found.items() if field in _KNOWN}
    if not fields.get("revoked_at_s") and any(found[field] for field in found.keys() - _KNOWN - {"source"}):
        raise ImplausibleRow("a key with fields of a newer release")
    for field in LISTS:
        fields[field] = _names(fields.get(field, []))
    # A newer release may have revoked a key with limits that this one does not know.
    fields["limits"] = Limits() if fields.get("revoked_at_s") else _limits(fields.get("limits", {}))
    if not name or fields.get("id") != name or not is_name(name) or not _DIGEST.fullmatch(str(fields.get("digest"))):
        raise ImplausibleRow("a key without its id and digest")
    if fields.get("previous_digest") and not _DIGEST.fullmatch(str(fields["previous_digest"])):
        raise ImplausibleRow("a key whose previous digest is none")
    if not all(is_name(fields.get(field, "")) for field in ("tenant", "team", "previous_digest")):
        raise ImplausibleRow("a key whose tenant or team is no name")
    if not all(_is_moment(fields[field], field) for field in MOMENTS if field in fields):
        raise ImplausibleRow("a key with a moment that is none")
    return KeyRecord(**fields)


def known_key(name: str, data: object) -> KeyRecord | None:
    """Return the record kept under `name`; None for no row, and for one that is no key."""
    try:
        return None if data is None else read_key(name, data)
    except ImplausibleRow:
        return None


def parse_rows(
    rows: Iterable[tuple[object, object]], read: Callable[[str, object], T]
) -> tuple[dict[str, T], frozenset[str]]:
    """Parse the rows with `read`. Return the results by name, and the names of implausible rows."""
    found: dict[str, T] = {}
    strange: set[str] = set()
    for named, data in rows:
        name = named.decode("utf-8", "replace") if isinstance(named, bytes) else str(named)
        try:
            found[name] = read(name, data)
        except ImplausibleRow:
            strange.add(name)
    return found, frozenset(strange)


def read_limits(data: object) -> Limits:
    """Read limits as a store keeps them. Raises `ImplausibleRow`."""
    return _limits(_object(data))


def read_usage(names: object, counts: object) -> tuple[UsageKey, UsageSum]:
    """Read a row of usage: five names, the day first, and eight counts. Raises `ImplausibleRow`."""
    if not (isinstance(names, list | tuple) and len(names) == 5 and all(is_name(name) for name in names)):
        raise ImplausibleRow("usage without its five names")
    if not _DAY.fullmatch(names[0]):
        raise ImplausibleRow("usage of no day")
    if not (isinstance(counts, list | tuple) and len(counts) == len(USAGE_FIELDS) and all(map(is_count, counts))):
        raise ImplausibleRow("usage whose counts are none")
    return UsageKey(*names), UsageSum(*counts)


def read_usage_rows(rows: Iterable[Sequence[object]]) -> tuple[UsageTable, int]:
    """Read rows of five names and eight counts each. Returns the sums, and how many rows are implausible and left
    out."""
    found: UsageTable = {}
    strange = 0
    for row in rows:
        try:
            key, usage = read_usage(row[:5], row[5:])
            found[key] = usage
        except ImplausibleRow:
            strange += 1
    return found, strange


def read_line(raw: bytes) -> Line:
    """Read a line of the journal. Raises `ImplausibleRow`."""
    try:
        line = orjson.loads(raw)
    except ValueError as error:
        raise ImplausibleRow("no JSON") from error
    if not (isinstance(line, list) and len(line) == 4 and line[0] in (RESERVED, SETTLED) and isinstance(line[1], str)):
        raise ImplausibleRow("no line of a journal")
    return (line[0], line[1], *read_usage(line[2], line[3]))


def read_count(value: object) -> int | None:
    """Read a count as Redis or SQLite keeps it, or return None for anything else."""
    if isinstance(value, bytes) and len(value) <= 20 and value.isdigit():
        value = int(value)
    return cast(int, value) if is_count(value, MAX_SUM) else None


def _object(data: object) -> dict[str, Any]:
    if not isinstance(data, bytes | str) or len(data) > MAX_RECORD_BYTES:
        raise ImplausibleRow("no text, or too long a one")
    try:
        found = orjson.loads(data)
    except ValueError as error:
        raise ImplausibleRow("no JSON") from error
    if not isinstance(found, dict):
        raise ImplausibleRow("no object")
    return found


def _limits(tree: object) -> Limits:
    if not isinstance(tree, dict):
        raise ImplausibleRow("limits that are no object")
    try:
        return limits_of(tree)
    except (ConfigurationError, OverflowError) as error:
        raise ImplausibleRow(str(error)) from error


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > MAX_ITEMS or not all(isinstance(name, str) for name in value):
        raise ImplausibleRow("a list that holds no names")
    return tuple(value)


def _is_moment(value: object, field: str) -> bool:
    if value is None:
        return field in ("expires_at_s", "revoked_at_s")
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
