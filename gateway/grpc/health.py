"""`grpc.health.v1.Health`, which follows readiness: NOT_SERVING wherever `/readyz` says 503."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sluicegate.gateway.grpc.calls import HandlerContext
from sluicegate.gateway.runtime import Runtime

TICK_S = 0.25
"""How soon a watcher is told of a change."""
MOST_WATCHERS = 1024
Served = health_pb2.HealthCheckResponse


class ReadinessHealth(health_pb2_grpc.HealthServicer):
    """Asked by orchestrators, which have no key."""

    def __init__(self, runtime: Runtime, service: str) -> None:
        self._runtime = runtime
        self._services = ("", service)
        self._watchers = 0
        self._looked_s = 0.0
        self._status: int = Served.NOT_SERVING
        self.stopping = False

    async def Check(self, request: health_pb2.HealthCheckRequest, context: HandlerContext) -> Any:
        if request.service not in self._services:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no service {request.service[:100]!r} is served here", ())
        return Served(status=self._now())

    async def Watch(self, request: health_pb2.HealthCheckRequest, context: HandlerContext) -> AsyncIterator[Any]:
        """Yield the status now and whenever it changes; ends when the gateway does."""
        if self._watchers >= MOST_WATCHERS:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, f"{self._watchers} calls watch already", ())
        self._watchers += 1
        try:
            told = None
            while True:
                found = self._now() if request.service in self._services else Served.SERVICE_UNKNOWN
                if found != told:
                    yield Served(status=found)
                    told = found
                if self.stopping:
                    return
                await asyncio.sleep(TICK_S)
        finally:
            self._watchers -= 1

    def _now(self) -> int:
        """Look at most once a tick, however many ask."""
        now_s = time.monotonic()
        if now_s - self._looked_s >= TICK_S or self.stopping:
            serves = self._runtime.readiness.serves and not self.stopping
            self._looked_s = now_s
            self._status = Served.SERVING if serves else Served.NOT_SERVING
        return self._status
