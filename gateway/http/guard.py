"""Who may operate the gateway: a key with the scope `admin`, or, where no keys exist, whoever sits at this machine.

Without keys the server listens on loopback only (`gateway/server.py`). A page in the operator's browser could still
reach it under a name of its own (DNS rebinding): `gateway/http/host_check.py` refuses that on every route. Names that
the configuration adds there may use the gateway, and may not operate it.
"""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import HTTPConnection

from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.authority import authority_of, origin_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import AuthenticationError, BooksUnavailable, Caller, PermissionDenied, RequestError

SCOPE = "admin"


def operator_of(runtime: Runtime, request: HTTPConnection, *scopes: str) -> Caller:
    """Return the caller, who must have the scope `admin` or one of `scopes`. Raises `AuthenticationError` or
    `PermissionDenied`."""
    if not runtime.keyed:
        _check_local(request)
        return Caller(scopes=frozenset((SCOPE,)))
    caller = runtime.identify(api_key_of(request))
    if not caller.scopes & {SCOPE, *scopes}:
        needed = " or ".join(repr(scope) for scope in (SCOPE, *scopes))
        raise PermissionDenied(f"this needs a key with the scope {needed}; key {caller.key_id!r} has none")
    return caller


def name_of(caller: Caller) -> str:
    """Return the caller's name for logs."""
    return caller.key_id or "this machine"


def _check_local(request: HTTPConnection) -> None:
    try:
        host = authority_of(request.headers.get("host", ""))
        origin = origin_of(request.headers["origin"]) if "origin" in request.headers else None
    except ValueError as error:
        raise RequestError(f"a header that says whom the request is meant for {error}", code="invalid_host") from error
    for named in (host, *((origin.authority,) if origin is not None else ())):
        if not named.is_loopback:
            raise PermissionDenied(
                "without API keys only this machine may operate the gateway; the request was addressed to "
                f"{named.host!r}"
            )


def allowed(path: str, routes: Iterable[str]) -> bool:
    return any(path.startswith(r[:-1]) if r.endswith("*") else path == r for r in routes)


def route_refused(path: str, caller: Caller) -> PermissionDenied:
    routes = ", ".join(sorted(caller.routes or ()))
    return PermissionDenied(f"key {caller.key_id!r} may not call {path!r}; it may call: {routes}")


def check_route(path: str, caller: Caller) -> None:
    """Check that the caller may use `path`, for work that will call it later. Raises `PermissionDenied`."""
    if caller.routes is not None and not allowed(path, caller.routes):
        raise route_refused(path, caller)


def counted_for(runtime: Runtime, key: str | None, address: str) -> str:
    """Return the name under which bodies sent with `key` from `address` are counted: the tenant, or, without keys, the
    address. Where keys are required, all senders without a valid one count as one."""
    if not runtime.keyed:
        return f"address {address}"
    try:
        return f"tenant {runtime.identify(key).tenant!r}"
    except (AuthenticationError, BooksUnavailable):
        return "callers without a known key"
