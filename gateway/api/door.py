"""Refuse a request by its head alone where every model would refuse it: under load, reading, screening and rendering
what is refused in the end costs more than all answers together have left.

The server asks as soon as it has parsed a head (`at_head`), before there is a task or a context for the request; a
plain one is answered there, in the words that the whole application would use. What is not plain, or came through
another server, is asked in the application (`let_in`). WebSockets and gRPC have no head of a request; theirs are
refused behind the prompt, as are those of a gateway with one free model among busy ones.

What is turned away has no trace and no line among requests, which would cost more than the refusal. It is counted by
tenant for the console's overview, and the log has a line for each ten seconds in which it happens.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from starlette.requests import HTTPConnection
from starlette.types import Scope

from sluicegate.gateway.accounts.limits.runs import DEPTH_HEADER, RUN_HEADER
from sluicegate.gateway.api.dialect import Dialect, TextDialect
from sluicegate.gateway.http.api_key import api_key_of, key_of_head
from sluicegate.gateway.http.arrival import is_noted, note_reading
from sluicegate.gateway.http.connection.protocol import HeadRefusal
from sluicegate.gateway.http.errors import JSON, OPENAI, ErrorForms, error_headers, error_status
from sluicegate.gateway.http.guard import allowed
from sluicegate.gateway.http.key_gate import left_of
from sluicegate.gateway.http.middleware import RawHeaders, request_id_of
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import Caller, Overloaded, SluicegateError

log = logging.getLogger("sluicegate.door")
NOBODY = Caller().tenant


class EarlyRefusals:
    """Used on the event loop."""

    def __init__(self, runtime: Runtime, dialects: Iterable[Dialect]) -> None:
        """Open a door for those of `dialects` that generate text."""
        kinds = tuple(dialects)
        self._runtime = runtime
        self._paths = frozenset(dialect.path for dialect in kinds if isinstance(dialect, TextDialect))
        self._targets = {path.encode(): path for path in self._paths}
        self._forms = error_forms(kinds)
        self._max_bytes = runtime.settings.server.max_body_bytes

    def let_in(self, request: HTTPConnection) -> None:
        """Refuse a request before its body is read. Raises `Overloaded`, and for an unknown key
        `AuthenticationError`."""
        if request.scope["path"] not in self._paths or is_noted(request.scope) or not self._shuts:
            return
        waited_s, tenant = note_reading(request.scope), NOBODY
        if self._runtime.closed_to_strangers:
            tenant = self._runtime.identify(api_key_of(request)).tenant
        self._turn_away(tenant, waited_s)

    def at_head(self, target: bytes, scope: Scope) -> HeadRefusal | None:
        """Decide about a POST of HTTP/1.1 whose head is read: `scope` has its headers and when it arrived. None: it is
        let in, or is for the application to decide, which says more than that the gateway is busy."""
        path, head = self._targets.get(target), dict(scope["headers"])
        if path is None or len(head) < len(scope["headers"]) or not self._is_plain(head):
            return None
        caller: Caller | None = None
        try:
            caller = self._runtime.identify(key_of_head(head))
            if caller.routes is not None and not allowed(path, caller.routes):
                return None
            self._turn_away(caller.tenant, note_reading(scope))
        except SluicegateError as error:
            return self._refusal(path, head, caller, error)
        return None

    def _is_plain(self, head: dict[bytes, bytes]) -> bool:
        """Return whether an unread request can be refused only for its key or the load."""
        declared = head.get(b"content-length", b"0")
        return (
            self._shuts
            and self._runtime.closed_to_strangers
            and declared.isdigit()
            and int(declared) <= self._max_bytes
            and RUN_HEADER not in head
            and DEPTH_HEADER not in head
        )

    def _refusal(
        self, path: str, head: dict[bytes, bytes], caller: Caller | None, error: SluicegateError
    ) -> HeadRefusal:
        self._runtime.metrics.count_response(error_status(error))
        form = self._forms.of(path)
        body, request_id = form.body(error), request_id_of(head.get(b"x-request-id", b""))
        headers: RawHeaders = [(b"content-type", JSON.encode()), (b"content-length", b"%d" % len(body))]
        headers += [(name.encode(), value.encode()) for name, value in error_headers(error).items()]
        headers += left_of(self._runtime.accounts, caller) if caller is not None else ()
        headers += [(name, request_id) for name in (b"x-request-id", form.request_id) if name is not None]
        return HeadRefusal(error_status(error), headers, body)

    def _turn_away(self, tenant: str, waited_s: float) -> None:
        stages = self._runtime.pipeline.stages
        try:
            stages.queues.turn_away(stages.generate[1], tenant, waited_s)
        except Overloaded as refused:
            if self._runtime.trace_sink.series.turn_away(tenant):
                log.warning("requests are turned away at the door: %s", refused.message)
            raise

    @property
    def _shuts(self) -> bool:
        """Return whether requests can be refused at the head now; not before the keys are read, when callers are told
        to wait."""
        return bool(self._runtime.pipeline.stages.queues.shed_s) and self._runtime.ready


def error_forms(dialects: Iterable[Dialect]) -> ErrorForms:
    return ErrorForms({dialect.path: dialect.errors for dialect in dialects if dialect.errors is not OPENAI})
