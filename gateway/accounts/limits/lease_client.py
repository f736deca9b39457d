"""The connection over which gateways share limits, and what this gateway calls itself there."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from sluicegate.cache.stores.redis_client import Tls, connect, evaluate, why_of
from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.limits.lease_script import (
    ALIVE_S,
    COUNT_SPENT,
    LEASE,
    RENEW,
    LeaseQuestion,
    LeaseReply,
    read_reply,
)
from sluicegate.gateway.accounts.limits.presence import PATIENCE_S, Presence
from sluicegate.gateway.accounts.stores.redis import prefix_of
from sluicegate.plugins import Overloaded

BEAT_S = ALIVE_S / 5
UNREACHABLE = "limits are shared and their store cannot be reached now; try again"


class LeaseClient(Presence):
    """Used on the event loop. A question is sent at most twice, and only as it was: `lease_script` answers it once."""

    def __init__(self, url: str, health: Health) -> None:
        super().__init__()
        self._url = url
        self._alive, self._lease = f"{prefix_of(url)}:alive:", f"{prefix_of(url)}:lease:"
        self._known = f"{prefix_of(url)}:known:"
        self._health = health
        self._client: Any = None

    async def renew_presence(self) -> bool:
        sent = time.monotonic()
        parts = (RENEW, 2, self._alive + self.name, self._known + self.name, int(ALIVE_S * 1000))
        is_new = bool(await evaluate(self.client, parts, PATIENCE_S))
        self.note_alive(sent)
        return is_new

    @property
    def client(self) -> Any:
        if self._client is None:
            self._client = connect(self._url, Tls(), retries=0)
        return self._client

    async def ask(self, limit: str, question: LeaseQuestion) -> LeaseReply:
        """Send one question about `limit`. Raises `Overloaded` where the store does not answer: a request is refused
        where its limit cannot be checked."""
        sent = time.monotonic()
        try:
            reply = read_reply(await self._sent(limit, question), question)
        except Exception as error:
            self._health.counts["lease_failures"] += 1
            reason = f"the store of shared limits does not answer: {why_of(error)}"
            self._health.begin("leases", reason, error)
            raise Overloaded(UNREACHABLE, retry_after_s=1.0) from error
        self.note_alive(sent)
        self._health.end("leases")
        self._health.set_aside("rows_set_aside", reply.strange, self._lease + limit)
        return reply

    async def count_spent(self, limit: str, label: str, nanos: int) -> None:
        """Count money that was spent in the period `label` before there was a budget."""
        async with asyncio.timeout(PATIENCE_S):
            await self.client.eval(COUNT_SPENT, 1, self._lease + limit, label, nanos)

    async def _sent(self, limit: str, question: LeaseQuestion) -> Any:
        parts = (LEASE, 1, self._lease + limit, *question.arguments(self.name, self._alive))
        return await evaluate(self.client, parts, PATIENCE_S)

    async def close(self) -> None:
        """Give up all seats; a store that does not answer finds out by itself."""
        if self._client is not None:
            try:
                await self._client.delete(self._alive + self.name, self._known + self.name)
            finally:
                await self._client.aclose()
