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


def key_of_head(head: Mapping[bytes, bytes]) -> str | None:
    """From the headers of a request as they came, none of them twice."""
    named = (b"authorization", b"x-api-key")
    return key_in({name.decode(): head[name].decode("latin-1") for name in named if name in head})
