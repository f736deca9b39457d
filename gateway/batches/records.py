"""What a batch and its files are. Times are Unix seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Status = Literal["validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"]
OPEN: tuple[Status, ...] = ("validating", "in_progress", "finalizing", "cancelling")
"""What a worker still has to do something about."""


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
    name that the API gives them (`in_progress_at` ...). `error`: why it failed as a whole."""

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


@dataclass(frozen=True, slots=True)
class LineResult:
    """`body` is the JSON that the endpoint answered, `status` its HTTP status; 0: it was never asked."""

    line: int
    custom_id: str
    status: int
    body: bytes
    prompt_tokens: int = 0
    completion_tokens: int = 0
