"""Bound the bytes of request bodies that the gateway holds at a time: of each tenant, and in all.

A body counts from its first piece until its request is over. One that comes in a single small piece is not counted;
connections are bounded by `max_connections`.
"""

from __future__ import annotations

from collections.abc import Mapping

from sluicegate.gateway.settings import ServerSettings
from sluicegate.plugins import Overloaded, RateLimited

UNCOUNTED = 32_768
"""A body of at most this many bytes is not counted if it arrives in one piece."""
PIECE = 64
"""Overhead of a piece in bytes: a client that sends single bytes creates an object for each."""
RETRY_S = 1.0


class BodyBudget:
    """One for each gateway. Used on the event loop."""

    def __init__(self, settings: ServerSettings | None = None) -> None:
        asked = settings or ServerSettings()
        self._each = max(asked.tenant_bodies_bytes, asked.max_body_bytes + PIECE)
        self._most = max(asked.all_bodies_bytes, self._each)
        self._of: dict[str, int] = {}
        self._nbytes = 0
        self._refused = 0

    def take(self, whose: str, nbytes: int) -> int:
        """Count a piece of `nbytes`, and return what to `give_back`. Raises `RateLimited` where the bodies of `whose`
        are as much as one may have here, `Overloaded` where those of all are."""
        weight = nbytes + PIECE
        held = self._of.get(whose, 0)
        if held + weight > self._each:
            self._refused += 1
            raise RateLimited(
                f"{held} bytes of bodies of {whose} are here already, as much as may ([server] tenant_bodies_bytes = "
                f"{self._each}); send fewer at a time, or wait until those are answered",
                retry_after_s=RETRY_S,
            )
        if self._nbytes + weight > self._most:
            self._refused += 1
            raise Overloaded(
                f"{self._nbytes} bytes of bodies are here already, as much as may ([server] all_bodies_bytes)",
                retry_after_s=RETRY_S,
            )
        self._of[whose] = held + weight
        self._nbytes += weight
        return weight

    def give_back(self, whose: str, weight: int) -> None:
        self._nbytes -= weight
        self._of[whose] -= weight
        if not self._of[whose]:
            del self._of[whose]

    def stats(self) -> Mapping[str, float]:
        return {"bodies_bytes": float(self._nbytes), "bodies_refused_total": float(self._refused)}
