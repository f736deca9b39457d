"""Plain ASGI middleware: a key's routes, its `x-ratelimit-*` headers, and the feature tag of the request."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial
from operator import attrgetter

from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate.gateway.accounts.accounts import Accounts
from sluicegate.gateway.accounts.features import FEATURE, HEADER
from sluicegate.gateway.accounts.limits.meter import LimitStatus
from sluicegate.gateway.accounts.limits.runs import MARK, mark_of_headers
from sluicegate.gateway.http.api_key import key_in_scope
from sluicegate.gateway.http.errors import ErrorForms
from sluicegate.gateway.http.guard import allowed, route_refused
from sluicegate.gateway.http.middleware import RawHeaders, add_headers
from sluicegate.plugins import AuthenticationError, BooksUnavailable, Caller, RequestError

_NAMES = tuple(
    tuple(b"x-ratelimit-%s-%s" % (said, what) for said in (b"limit", b"remaining", b"reset"))
    for what in (b"requests", b"tokens")
)
_remaining = attrgetter("remaining")
Standings = tuple[LimitStatus | None, LimitStatus | None]
"""(requests, tokens) left to the holder of a limit."""


class KeyGate:
    """Stands before every route, WebSockets too. A key that is not known passes: the route itself refuses it."""

    def __init__(self, app: ASGIApp, accounts: Accounts, forms: ErrorForms) -> None:
        self._app = app
        self._accounts = accounts
        self._forms = forms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        caller = self._caller(scope)
        if caller is not None and caller.routes is not None and not allowed(scope["path"], caller.routes):
            await self._forms.refuse(route_refused(scope["path"], caller), scope, receive, send)
            return
        headers = dict(scope["headers"])
        try:
            mark = MARK.set(mark_of_headers(headers))
        except RequestError as error:
            await self._forms.refuse(error, scope, receive, send)
            return
        token = FEATURE.set(headers.get(HEADER, b"").decode("latin-1"))
        if caller is not None and scope["type"] == "http" and self._accounts.meters.of(caller):
            add_headers(scope, partial(left_of, self._accounts, caller))
        try:
            await self._app(scope, receive, send)
        finally:
            FEATURE.reset(token)
            MARK.reset(mark)

    def _caller(self, scope: Scope) -> Caller | None:
        return known_caller(self._accounts, key_in_scope(scope))


def known_caller(accounts: Accounts, key: str | None) -> Caller | None:
    """Return the caller of a key; None for an unknown key, and where no key is required."""
    if key is None or not accounts.keyring.required:
        return None
    try:
        return accounts.keyring.find(key)[1]
    except (AuthenticationError, BooksUnavailable):
        return None


def left_of(accounts: Accounts, caller: Caller) -> RawHeaders:
    """Return the headers with the caller's remaining limits."""
    now_s = time.time()
    meters = accounts.meters.of(caller)
    return rate_headers([meter.standing(now_s) for meter in meters]) if meters else []


def rate_headers(standings: Iterable[Standings]) -> RawHeaders:
    """Return the headers of whichever has less left, key or team."""
    first, *others = standings
    found: RawHeaders = []
    for (limit, remaining, reset), least in zip(_NAMES, _least(first, others) if others else first, strict=True):
        if least is not None:
            found.append((limit, b"%d" % least.limit))
            found.append((remaining, b"%d" % least.remaining))
            found.append((reset, b"%.3fs" % least.reset_s))
    return found


def _least(first: Standings, others: list[Standings]) -> list[LimitStatus | None]:
    kinds = zip(first, *others, strict=True)
    return [min((one for one in kind if one is not None), key=_remaining, default=None) for kind in kinds]
