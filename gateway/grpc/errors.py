"""Errors as gRPC has them: a status code that follows the HTTP status, and details of `google.rpc`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2

from sluicegate.gateway.http.errors import error_detail, error_status
from sluicegate.plugins import PendingReview, SluicegateError

DOMAIN = "sluicegate"
LONGEST = 1000
FACT = 500
CUT = "…"
"""`LONGEST` bytes of a message, `FACT` of each other fact; `CUT` ends what is shortened. All of them go into one block
of metadata, commonly bounded to 8 KiB, in which the message occurs three times."""
CODES: Mapping[int, grpc.StatusCode] = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    408: grpc.StatusCode.DEADLINE_EXCEEDED,
    409: grpc.StatusCode.ABORTED,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED,
    415: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    502: grpc.StatusCode.UNAVAILABLE,
    503: grpc.StatusCode.UNAVAILABLE,
    504: grpc.StatusCode.DEADLINE_EXCEEDED,
    507: grpc.StatusCode.UNAVAILABLE,
}
"""gRPC status by HTTP status."""


@dataclass(frozen=True, slots=True)
class CallFailure:
    """How a call ends: what `abort` takes."""

    code: grpc.StatusCode
    message: str
    metadata: tuple[tuple[str, str | bytes], ...]


def failure_of(error: SluicegateError) -> CallFailure:
    code, message = code_of(error), shortened(error.message)
    status = status_pb2.Status(code=code.value[0], message=message, details=_details(error, message))
    metadata: list[tuple[str, str | bytes]] = [("grpc-status-details-bin", status.SerializeToString())]
    if (wait_s := _wait_s(error)) is not None:
        metadata.append(("retry-after", str(max(1, math.ceil(wait_s)))))
    return CallFailure(code, message, tuple(metadata))


def code_of(error: SluicegateError) -> grpc.StatusCode:
    """Return the status code of an error. A request that a person has to look at first may succeed later, unlike what a
    key does not allow."""
    if isinstance(error, PendingReview):
        return grpc.StatusCode.FAILED_PRECONDITION
    return CODES.get(error_status(error), grpc.StatusCode.INTERNAL)


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return the beginning that takes at most `longest` bytes as gRPC writes a message, without what cannot be sent."""
    sent = text[: longest + 1].encode("utf-8", "replace").decode()
    if _written(sent) <= longest:
        return sent
    room, end = longest - _written(CUT), 0
    while (room := room - _written(sent[end])) >= 0:
        end += 1
    return sent[:end] + CUT


def _written(text: str) -> int:
    """Count the bytes of a text as a status message is written: printable ASCII as it is, every other byte as `%XX`."""
    return sum(1 if 0x20 <= byte < 0x7F and byte != 0x25 else 3 for byte in text.encode())


def _details(error: SluicegateError, message: str) -> list[any_pb2.Any]:
    detail = error_detail(error)
    reason = "".join(char if char.isalnum() else "_" for char in error.code).upper()
    found: list[Any] = [error_details_pb2.ErrorInfo(reason=reason, domain=DOMAIN, metadata=_facts(detail))]
    if detail["param"]:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=shortened(detail["param"], FACT), description=message, reason=reason
        )
        found.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if (wait_s := _wait_s(error)) is not None:
        delay = duration_pb2.Duration(seconds=int(wait_s), nanos=int(wait_s % 1 * 1e9))
        found.append(error_details_pb2.RetryInfo(retry_delay=delay))
    packed = []
    for one in found:
        packed.append(any_pb2.Any())
        packed[-1].Pack(one)
    return packed


def _facts(detail: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of an HTTP error body except its message, flattened to one level."""
    flat = {**detail, **{f"review_{name}": value for name, value in detail.get("review", {}).items()}}
    wanted = {name: value for name, value in flat.items() if name not in ("message", "review") and value is not None}
    return {name: shortened(str(value), FACT) for name, value in wanted.items()}


def _wait_s(error: SluicegateError) -> float | None:
    return getattr(error, "retry_after_s", None)
