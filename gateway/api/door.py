"""Refuse a request by its head alone where every model would refuse it: under load, reading, screening and rendering
what is refused in the end costs more than all answers together have left.

WebSockets and gRPC have no head of a request; theirs are refused behind the prompt, as are those of a gateway with one
free model among busy ones.

What is turned away has no trace and no line among requests, which would cost more than the refusal. It is counted by
tenant for the console's overview, and the log has a line for each ten seconds in which it happens.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from starlette.requests import HTTPConnection

from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.arrival import note_reading
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import Caller, Overloaded

log = logging.getLogger("sluicegate.door")
NOBODY = Caller().tenant


class FrontDoor:
    """Used on the event loop."""

    def __init__(self, runtime: Runtime, paths: Iterable[str]) -> None:
        """`paths`: what generates text."""
        self._runtime = runtime
        self._paths = frozenset(paths)

    def let_in(self, request: HTTPConnection) -> None:
        """Raises `Overloaded`, and for a key that nobody knows `AuthenticationError`."""
        stages = self._runtime.pipeline.stages
        if not stages.queues.shed_s or request.scope["path"] not in self._paths:
            return
        waited_s, tenant = note_reading(request.scope), NOBODY
        if self._runtime.closed_to_strangers:
            tenant = self._runtime.identify(api_key_of(request)).tenant
        try:
            stages.queues.turn_away(stages.generate[1], tenant, waited_s)
        except Overloaded as refused:
            if self._runtime.trace_sink.series.turn_away(tenant):
                log.warning("requests are turned away at the door: %s", refused.message)
            raise
