"""Accept and keep feedback: which caller may rate which answer, and the ratings.

A key rates only answers to its own requests. A later rating replaces an earlier one, and only the first counts for a
rollout.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate.gateway.database import Database, DatabaseUnavailable, Tables, tables_of, unavailable
from sluicegate.gateway.database.flushing import Flushing
from sluicegate.gateway.database.sealing import TextSealer, sealer_of
from sluicegate.gateway.feedback.recent import RecentAnswers
from sluicegate.gateway.feedback.store import AnsweredRequest, FeedbackStore
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.rollout.observation import Observation
from sluicegate.gateway.settings import FeedbackSettings
from sluicegate.plugins import Caller, NotFound, RequestError, Trouble

log = logging.getLogger("sluicegate.feedback")
EXPIRE_EVERY = 60
"""Flushes between two removals of old entries."""
MAX_WAITING = 20_000


@dataclass(frozen=True, slots=True)
class FeedbackEntry:
    """`score` from 0, of no use, to 1. At least one of the three says something."""

    request_id: str
    score: float | None = None
    label: str = ""
    comment: str = ""


class FeedbackBook:
    """Used on the event loop. Requests become known to tables that outlive the process a moment after they ended."""

    def __init__(
        self,
        settings: FeedbackSettings,
        tables: Tables,
        sealer: TextSealer | None,
        observe: Callable[[Observation], None],
        *,
        outlives: bool,
    ) -> None:
        """Note where feedback goes. `outlives`: the tables outlive the process, or others use them."""
        self._recent = None if outlives else RecentAnswers(settings.max_requests)
        self._settings = settings
        self._tables = tables
        self._store = FeedbackStore(tables)
        self._sealer = sealer
        self._observe = observe
        self._waiting: OrderedDict[tuple[str, str], AnsweredRequest] = OrderedDict()
        self._flushing = Flushing(
            "requests that feedback could be given on", self._flush, self._expire, EXPIRE_EVERY, log
        )
        self._counts = {"given_total": 0.0, "requests_left_out_total": 0.0}

    async def start(self) -> None:
        self._flushing.start()

    async def close(self) -> None:
        if (error := await self._flushing.close()) is not None:
            log.error("no feedback can be given on the last %d requests: %s", len(self._waiting), error)
        await asyncio.to_thread(self._tables.close)

    def stats(self) -> Mapping[str, float]:
        return self._counts

    def troubles(self) -> Sequence[Trouble]:
        return self._flushing.troubles()

    def note(self, exchange: Exchange) -> None:
        """Note a request on which feedback may be given. Called once for each request that has ended; one for an MCP
        tool has no model whose answer could be judged."""
        if not exchange.answers or exchange.error is not None or exchange.model is None:
            return
        if self._recent is None and len(self._waiting) >= MAX_WAITING:
            self._counts["requests_left_out_total"] += 1
            return
        owner, draw = owner_of(exchange.caller), exchange.draw
        found = AnsweredRequest(owner, exchange.request.id, exchange.served.name)
        if draw is not None and exchange.cached is None and not exchange.failed:
            found = AnsweredRequest(owner, exchange.request.id, found.model, draw.route, draw.version, draw.share)
        if self._recent is not None:
            self._recent.add(found)
        else:
            self._waiting[owner, found.request] = found

    async def give(self, caller: Caller, given: FeedbackEntry) -> AnsweredRequest:
        """Keep feedback on a request and return that request. Raises `NotFound` for a request that is none of this
        caller's, `RequestError` for a comment that cannot be kept, `Overloaded` without its database."""
        if len(given.comment) > self._settings.max_comment_chars:
            raise RequestError(
                f"the comment has {len(given.comment)} characters, [feedback] max_comment_chars is "
                f"{self._settings.max_comment_chars}",
                param="comment",
            )
        if given.comment and self._sealer is None:
            raise RequestError(
                "this gateway keeps no comments, as [feedback] secret is not set; leave `comment` out", param="comment"
            )
        owner = owner_of(caller)
        asked = await self._answered(owner, given.request_id)
        if asked is None:
            raise NotFound(
                f"no answered request {given.request_id[:100]!r} of this key is known; feedback can be given on the "
                f"last {self._settings.max_requests}, for {self._settings.keep_s:g} s",
                param="request_id",
                code="request_not_found",
            )
        sealed = self._sealer.seal(owner, given.comment, given.request_id) if self._sealer and given.comment else None
        if await self._call(lambda: self._store.put(asked, given.score, given.label, sealed)):
            self._counts["given_total"] += 1
            if given.score is not None and asked.share < 1:
                values = {"feedback": 1 - given.score}
                by = _speaker(owner)
                self._observe(Observation(asked.route, asked.version, asked.share, values, counts=False, by=by))
        return asked

    async def newest(self, limit: int, *, reveal: bool, request: str = "") -> list[dict[str, Any]]:
        found = await self._call(lambda: self._store.newest(limit, request))
        return [
            {
                "owner": one.owner,
                "request_id": one.request,
                "at_s": one.at_s,
                "score": one.score,
                "label": one.label,
                "model": one.model,
                "version": one.version,
                "has_comment": one.comment is not None,
                **({"comment": self._opened(one.owner, one.comment, one.request)} if reveal else {}),
            }
            for one in found
        ]

    async def forget(self, owner: str) -> int:
        if self._recent is not None:
            self._recent.forget(owner)
        for key in [key for key in self._waiting if key[0] == owner]:
            del self._waiting[key]
        return int(await self._call(lambda: self._store.forget(owner)))

    async def _answered(self, owner: str, request: str) -> AnsweredRequest | None:
        if self._recent is not None:
            return self._recent.find(owner, request)
        found = self._waiting.get((owner, request))
        return found or await self._call(lambda: self._store.answered(owner, request))

    def _opened(self, owner: str, comment: bytes | None, request: str) -> str | None:
        if comment is None or self._sealer is None:
            return None
        try:
            return self._sealer.open(owner, comment, request)
        except ValueError:  # damaged, or of another secret: the others are to be read all the same
            return None

    async def _call(self, work: Callable[[], Any]) -> Any:
        try:
            return await self._tables.call(work)
        except DatabaseUnavailable as error:
            raise unavailable("feedback and answered requests") from error

    async def _expire(self) -> None:
        if self._recent is not None:
            self._recent.expire(self._settings.keep_s)
        await self._tables.call(lambda: self._store.expire(self._settings.keep_s))

    async def _flush(self) -> None:
        if not self._waiting:
            return
        found = list(self._waiting.values())
        await self._tables.call(lambda: self._store.add_answered(found, self._settings.max_requests))
        for one in found:
            if self._waiting.get((one.owner, one.request)) is one:
                del self._waiting[one.owner, one.request]


def owner_of(caller: Caller) -> str:
    """Return the owner of a caller's requests: its key, or its tenant where there are no keys."""
    return f"key {caller.key_id}" if caller.key_id else f"tenant {caller.tenant}"


def _speaker(owner: str) -> str:
    """Return a hash of a caller with 4,096 values, which bounds what a rollout keeps of callers."""
    return hashlib.sha256(owner.encode()).hexdigest()[:3]


def feedback_book(
    settings: FeedbackSettings, database: Database | None, observe: Callable[[Observation], None]
) -> FeedbackBook | None:
    """Return the book of feedback, or None where the operator switched it off. Raises `ConfigurationError`."""
    if not settings.enabled:
        return None
    tables, sealer = tables_of(database, settings.path), sealer_of(settings.secret, "feedback")
    return FeedbackBook(settings, tables, sealer, observe, outlives=database is not None or bool(settings.path))
