"""Held items and reports, and the JSON form of a held request."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter

from sluicegate.plugins import Request, exact_json

Status = Literal["pending", "approved", "denied", "expired"]
Kind = Literal["request", "answer"]


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """`kind` `request`: nothing was generated yet; `answer`: it was, and is held. Times in seconds since the epoch."""

    id: str
    tenant: str
    key_id: str | None
    kind: Kind
    model: str
    rail: str
    reason: str
    request_id: str
    created_s: float
    expires_s: float
    status: Status = "pending"
    decided_s: float | None = None
    decided_by: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class FalsePositiveReport:
    """A false positive reported by a caller; its text is kept for the regression set."""

    id: str
    tenant: str
    key_id: str | None
    created_s: float
    rail: str
    request_id: str
    note: str


@cache
def _requests() -> TypeAdapter[Request]:
    return TypeAdapter(Request)


def request_to_json(request: Request) -> Any:
    """Return everything of the request but the caller's key, as JSON."""
    return exact_json.read(_requests().dump_json(dataclasses.replace(request, api_key=None)))


def request_from_json(tree: Any) -> Request:
    return _requests().validate_python(tree)
