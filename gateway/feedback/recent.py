"""Recently answered requests in memory, where no table of them outlives the process or is shared."""

from __future__ import annotations

import time
from collections import OrderedDict

from sluicegate.gateway.feedback.store import AnsweredRequest


class RecentAnswers:
    """What `FeedbackStore` keeps of answered requests, in memory: each request of the gateway is added, and few are
    ever asked for. Used on the event loop."""

    def __init__(self, most: int) -> None:
        """Keep the last `most` of each owner."""
        self._most = most
        self._owners: dict[str, OrderedDict[str, tuple[AnsweredRequest, float]]] = {}
        """By owner and request, with when each was added, oldest first."""

    def add(self, found: AnsweredRequest) -> None:
        kept = self._owners.get(found.owner)
        if kept is None:
            kept = self._owners[found.owner] = OrderedDict()
        kept[found.request] = found, time.monotonic()
        kept.move_to_end(found.request)
        if len(kept) > self._most:
            kept.popitem(last=False)

    def find(self, owner: str, request: str) -> AnsweredRequest | None:
        kept = self._owners.get(owner)
        found = kept.get(request) if kept is not None else None
        return found[0] if found is not None else None

    def forget(self, owner: str) -> None:
        self._owners.pop(owner, None)

    def expire(self, keep_s: float) -> None:
        before = time.monotonic() - keep_s
        for owner, kept in list(self._owners.items()):
            while kept and next(iter(kept.values()))[1] < before:
                kept.popitem(last=False)
            if not kept:
                del self._owners[owner]
