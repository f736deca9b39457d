"""The key that a request shows."""

from __future__ import annotations

from starlette.requests import HTTPConnection


def api_key_of(request: HTTPConnection) -> str | None:
    """From `Authorization: Bearer`, else from `x-api-key`."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else request.headers.get("x-api-key")
