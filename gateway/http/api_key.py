"""The API key in a request's headers."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import HTTPConnection
from starlette.types import Scope


def api_key_of(request: HTTPConnection) -> str | None:
    return key_in_scope(request.scope)


def key_in_scope(scope: Scope) -> str | None:
    """Return the key in a scope's raw headers, as `key_in`. Of a repeated header the first counts."""
    authorization = key = None
    for name, value in scope["headers"]:
        if name == b"authorization" and authorization is None:
            authorization = value
        elif name == b"x-api-key" and key is None:
            key = value
    return _key(
        "" if authorization is None else authorization.decode("latin-1"), None if key is None else key.decode("latin-1")
    )


def key_in(headers: Mapping[str, str]) -> str | None:
    """Return the key from `Authorization: Bearer`, else from `x-api-key`. Names are in lower case."""
    return _key(headers.get("authorization", ""), headers.get("x-api-key"))


def _key(authorization: str, key: str | None) -> str | None:
    scheme, _, shown = authorization.partition(" ")
    return shown.strip() or None if scheme.lower() == "bearer" else key


def key_of_head(head: Mapping[bytes, bytes]) -> str | None:
    """Return the key in raw headers, none of which is repeated."""
    named = (b"authorization", b"x-api-key")
    return key_in({name.decode(): head[name].decode("latin-1") for name in named if name in head})
