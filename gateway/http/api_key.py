"""The key that a request shows."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import HTTPConnection


def api_key_of(request: HTTPConnection) -> str | None:
    return key_in(request.headers)


def key_in(headers: Mapping[str, str]) -> str | None:
    """From `Authorization: Bearer`, else from `x-api-key`; names are in lower case."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    return key.strip() or None if scheme.lower() == "bearer" else headers.get("x-api-key")
