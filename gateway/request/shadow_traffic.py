"""Shadow traffic: send a copy of some requests to another model, whose answer only recorders get."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import random
from collections.abc import Mapping

from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.gateway.routing.table import RouteTable
from sluicegate.plugins import Caller, SluicegateError

log = logging.getLogger("sluicegate.shadow")
MAX_RUNNING = 8
"""Most copies that run at a time; further ones are skipped and counted, so that they never pile up."""
PRIORITY = 20
TENANT = "shadow"


class ShadowTraffic:
    """Copies run at the lowest priority, are charged to no key, and their failures reach nobody."""

    def __init__(self, pipeline: Pipeline, table: RouteTable) -> None:
        self._pipeline = pipeline
        self._table = table
        self._running: set[asyncio.Task[None]] = set()
        self._counts = {"sent_total": 0.0, "left_out_total": 0.0, "failed_total": 0.0}

    def consider(self, exchange: Exchange) -> None:
        """Send a copy to the shadow model where one is due. Called once for each request whose generation has begun."""
        model, share = self._table.shadow(exchange.served.name)
        if not share or exchange.attempt.cached is not None or random.random() >= share:
            return
        if len(self._running) >= MAX_RUNNING:
            self._counts["left_out_total"] += 1
            return
        task = asyncio.create_task(self._send(exchange, model))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    def stats(self) -> Mapping[str, float]:
        return self._counts

    async def _send(self, exchange: Exchange, model: str) -> None:
        self._counts["sent_total"] += 1
        copy = dataclasses.replace(
            exchange.request,
            id=f"shadow-{exchange.request.id}",
            api_key=None,
            stream=False,
            cache=False,
            priority=PRIORITY,
            metadata={**exchange.request.metadata, "shadow_of": exchange.served.name},
        )
        try:
            await self._pipeline.answer_with(copy, Caller(tenant=TENANT), model)
        except SluicegateError as error:
            self._counts["failed_total"] += 1
            log.info("shadow of %s at %s failed: %s", exchange.request.id, model, error.code)
