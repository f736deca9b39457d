"""Records of batches and their files, and the checks of records that are read back. Times are Unix seconds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import orjson

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
OPEN: tuple[Status, ...] = ("validating", "in_progress", "finalizing", "cancelling")
"""States in which a worker still has something to do."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_MOST = 1 << 53


@dataclass(frozen=True, slots=True)
class FileRecord:
    id: str
    tenant: str
    filename: str
    purpose: str
    bytes: int
    created_s: int


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """`key_id`: whose key its requests are made with; None where no keys are needed. `times` of what happened, by the
    name that the API gives them (`in_progress_at` ...). `error`: why it failed as a whole. `counts`, once it has ended:
    answered well, failed, prompt tokens, completion tokens."""

    id: str
    tenant: str
    key_id: str | None
    endpoint: str
    input_file_id: str
    created_s: int
    expires_s: int
    status: Status = "validating"
    total: int = 0
    output_file_id: str | None = None
    error_file_id: str | None = None
    error: str | None = None
    error_line: int | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, int] = field(default_factory=dict)
    counts: tuple[int, int, int, int] | None = None


@dataclass(frozen=True, slots=True)
class LineResult:
    """`body` is the JSON that the endpoint answered, `status` its HTTP status; 0: it was never asked."""

    line: int
    custom_id: str
    status: int
    body: bytes
    prompt_tokens: int = 0
    completion_tokens: int = 0


def file_of(raw: Any) -> FileRecord:
    """Read the record of a file. Raises `ValueError` for what no gateway wrote."""
    tree = _tree(raw)
    found = FileRecord(**_fields(tree, FileRecord.__slots__))
    _check(_is_id(found.id), "id")
    _check(all(isinstance(text, str) for text in (found.tenant, found.filename, found.purpose)), "texts")
    _check(_is_count(found.bytes) and _is_count(found.created_s), "numbers")
    return found


def batch_of(raw: Any) -> BatchRecord:
    """Read the record of a batch. Raises `ValueError` for what no gateway wrote."""
    tree = _tree(raw)
    if isinstance(tree.get("counts"), list):
        tree["counts"] = tuple(tree["counts"])
    found = BatchRecord(**_fields(tree, BatchRecord.__slots__))
    ids = (found.id, found.input_file_id, found.output_file_id, found.error_file_id)
    _check(all(one is None or _is_id(one) for one in ids) and found.id is not None, "ids")
    _check(isinstance(found.input_file_id, str), "input_file_id")
    _check(isinstance(found.tenant, str) and isinstance(found.endpoint, str), "texts")
    _check(all(one is None or isinstance(one, str) for one in (found.key_id, found.error)), "texts")
    _check(found.status in get_args(Status), "status")
    _check(all(map(_is_count, (found.created_s, found.expires_s, found.total))), "numbers")
    _check(found.error_line is None or _is_count(found.error_line), "error_line")
    _check(_is_table(found.metadata, str) and _is_table(found.times, int), "tables")
    counts = found.counts
    _check(counts is None or (isinstance(counts, tuple) and len(counts) == 4 and all(map(_is_count, counts))), "counts")
    return found


def check_result(row: tuple[Any, ...]) -> None:
    """Check that a row can be a `LineResult`. Raises `ValueError`."""
    line, custom_id, status, body, *tokens = row
    _check(_is_count(line) and line > 0 and isinstance(custom_id, str), "line")
    _check(_is_count(status) and (status == 0 or 100 <= status < 600), "status")
    _check(isinstance(body, bytes) and all(map(_is_count, tokens)), "body")
    orjson.loads(body)


def _tree(raw: Any) -> dict[str, Any]:
    tree = json.loads(raw) if isinstance(raw, str | bytes) else None
    if not isinstance(tree, dict):
        raise ValueError("no JSON object")
    return tree


def _fields(tree: dict[str, Any], names: Any) -> dict[str, Any]:
    """Return `tree` if all of its fields are known. Raises `ValueError` otherwise: a later gateway's record means more
    than this one knows."""
    if unknown := set(tree) - set(names):
        raise ValueError(f"unknown fields {sorted(unknown)}")
    return tree


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise ValueError(f"wrong {what}")


def _is_id(value: Any) -> bool:
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST


def _is_table(value: Any, kind: type) -> bool:
    return isinstance(value, dict) and all(isinstance(k, str) and isinstance(v, kind) for k, v in value.items())
