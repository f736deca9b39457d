"""The queue as the gateway uses it: one thread for the store, ids nobody can guess, an end for what nobody decides."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
import uuid
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sluicegate.gateway.database import Database, DatabaseUnavailable, fault_of, is_damaged, patient, unavailable
from sluicegate.gateway.review.items import FalsePositiveReport, Kind, ReviewItem, Status
from sluicegate.gateway.review.stores.base import ReviewStore, Sealer, Unreadable
from sluicegate.gateway.review.stores.postgres import PostgresReviewStore
from sluicegate.gateway.review.stores.sqlite import SqliteReviewStore
from sluicegate.gateway.settings import ReviewSettings
from sluicegate.plugins import (
    Caller,
    ConfigurationError,
    NotFound,
    Overloaded,
    QuotaExceeded,
    Request,
    RequestError,
    Trouble,
)
from sluicegate.plugins.concurrency.ending import end_tasks
from sluicegate.plugins.concurrency.thread_calls import ThreadCalls

log = logging.getLogger("sluicegate.review")
T = TypeVar("T")
RECENT = 256
"""Refused requests remembered, in memory only, so that a false positive can be reported by its request id."""

MOST_REPORTED = 200_000
"""Characters of a reported text: 256 requests of 8 MB would be 2 to 8 GB."""

CLAIM_S = 15.0
"""How long after a gateway's last sign of life another one may take over its answer."""
AGAIN_S = 0.1
UNREADABLE = "review_unreadable"
LOOK_S = 5.0
"""How often a failed store is tried again."""


class ReviewQueue:
    """Used from one event loop."""

    def __init__(
        self,
        store: ReviewStore,
        settings: ReviewSettings = ReviewSettings(),
        clock: Callable[[], float] = time.time,
        place: Path | None = None,
    ) -> None:
        """Make a queue on `store`. `place`: the file of the store, where it has one of its own."""
        self._running: dict[str, asyncio.Lock] = {}
        """A lock for each approved request that this gateway is answering."""
        self._name = uuid.uuid4().hex
        self._store = store
        self._settings = settings
        self._clock = clock
        self._place = place
        self._reason = ""
        self._looking: asyncio.Task[None] | None = None
        self._thread = ThreadCalls(1, "review")
        self._recent: OrderedDict[str, tuple[str, str, str | None]] = OrderedDict()

    async def start(self) -> None:
        """Look into the file that is there already: who reads `/readyz` should not learn from a held text that it is
        of no use."""
        if self._place is not None and self._place.exists():
            with contextlib.suppress(Overloaded):
                await self._call(self._store.counts)

    def troubles(self) -> Sequence[Trouble]:
        return (Trouble(self._reason),) if self._reason else ()

    async def hold(self, caller: Caller, request: Request, kind: Kind, rail: str, reason: str, body: Any) -> ReviewItem:
        """Hold an item; it is on the disk when this returns. Raises what the store raises, or `RequestError` where the
        queue is full."""
        now, id = self._clock(), f"rev_{uuid.uuid4().hex}"
        expires_s = now + self._settings.ttl_s
        item = ReviewItem(
            id, caller.tenant, caller.key_id, kind, request.model, rail, reason, request.id, now, expires_s
        )

        def put() -> None:
            self._store.expire(now, self._settings.keep_s)
            if self._store.counts().get("pending", 0) >= self._settings.max_pending:
                raise RequestError("the review queue is full", code="review_queue_full")
            self._store.put(item, body)

        await self._call(put)
        log.info("review %s: %s of request %s is held, rail %s", id, kind, request.id, rail)
        return item

    async def get(self, id: str, tenant: str | None = None) -> tuple[ReviewItem, Any]:
        """Return an item and its body. Raises `NotFound`, also for another tenant's."""
        await self._expire()
        found = await self._call(lambda: self._store.get(id))
        if found is None or (tenant is not None and found[0].tenant != tenant):
            raise NotFound(f"there is no review {id!r} here", code="review_not_found")
        return found

    async def items(self, status: Status | None = "pending", limit: int = 100) -> list[tuple[ReviewItem, Any]]:
        await self._expire()
        return await self._call(lambda: self._store.items(status, None, limit))

    async def decide(self, id: str, status: Status, by: str, note: str = "") -> ReviewItem:
        """Decide an item. Raises `NotFound`, or `RequestError` where it was decided before."""
        item, body = await self.get(id)
        if status == "approved" and isinstance(body, Unreadable):
            raise RequestError(f"nobody can see here what review {id!r} holds: it is {body.reason}", code=UNREADABLE)
        now = self._clock()
        if not await self._call(lambda: self._store.decide(id, status, by, note, now)):
            item, _ = await self.get(id)
            raise RequestError(f"review {id!r} is {item.status} already; the first decision stands", code="decided")
        log.info("review %s is %s by %s", id, status, by)
        return replace(item, status=status, decided_s=now, decided_by=by, note=note)

    @asynccontextmanager
    async def answering(self, id: str) -> AsyncIterator[None]:
        """Wait until nobody else answers an approved request, here or at another gateway, and keep others waiting."""
        lock = self._running.setdefault(id, asyncio.Lock())
        try:
            async with lock:
                await self._claimed(id)
                renewing = asyncio.create_task(self._renew(id))
                try:
                    yield
                finally:
                    renewing.cancel()
                    with contextlib.suppress(Overloaded):  # it ends by itself
                        await self._call(lambda: self._store.release(id, self._name))
        finally:
            if not lock.locked():
                self._running.pop(id, None)

    async def _claimed(self, id: str) -> None:
        while True:
            if await self._call(lambda: self._store.claim(id, self._name, CLAIM_S)):
                return
            await asyncio.sleep(AGAIN_S)

    async def _renew(self, id: str) -> None:
        while True:
            await asyncio.sleep(CLAIM_S / 3)
            with contextlib.suppress(Overloaded):
                await self._call(lambda: self._store.claim(id, self._name, CLAIM_S))

    async def finish(self, item: ReviewItem, body: Any) -> None:
        """Keep what an approved request was answered with."""
        await self._call(lambda: self._store.replace_body(item, body))

    # --- false positives ---------------------------------------------------------------------------------------

    def remember(self, request: Request, tenant: str, rail: str) -> None:
        """Remember a request that was refused, until others push it out; never on the disk. Of one that is longer than
        a report may be, only that it was."""
        said = [message.content for message in request.messages if message.role == "user"]
        text = "\n\n".join(said) if sum(map(len, said)) <= MOST_REPORTED else None
        self._recent[request.id] = (tenant, rail, text)
        while len(self._recent) > RECENT:
            self._recent.popitem(last=False)

    def recall(self, request_id: str, tenant: str) -> tuple[str, str]:
        """Return (rail, text) of a refused request. Raises `NotFound`, or `RequestError` for one that is too long."""
        whose, rail, text = self._recent.get(request_id, ("", "", None))
        if not rail or whose != tenant:
            raise NotFound(
                f"no refused request {request_id!r} is remembered (the last {RECENT} are); report its `text`",
                param="request_id",
            )
        if text is None:
            raise RequestError(
                f"the request {request_id!r} has more than {MOST_REPORTED} characters, which are not kept: report "
                "those that were refused as `text`",
                param="request_id",
            )
        return rail, text

    async def report(self, report: FalsePositiveReport, text: str, kind: str = "false_positive") -> None:
        """Keep a report. `kind`: `false_positive`, or `miss`. Raises `QuotaExceeded` where the tenant has reported as
        much as is kept of one."""

        def put() -> None:
            count, size = self._store.reported(report.tenant)
            most, most_bytes = self._settings.max_reports, self._settings.max_report_bytes
            if (most and count >= most) or (most_bytes and size + len(text.encode("utf-8", "replace")) > most_bytes):
                raise QuotaExceeded(
                    f"{count} reports of {size} bytes are kept for this tenant, the quota ([review] max_reports, "
                    f"max_report_bytes) is {most} of {most_bytes} bytes; an operator removes what is no longer needed "
                    "with DELETE /v1/safety/false_positives/ID",
                    code="report_quota_exceeded",
                )
            self._store.put_report(report, {"text": text, "kind": kind})

        await self._call(put)

    async def remove_report(self, id: str) -> None:
        if not await self._call(lambda: self._store.remove_report(id)):
            raise NotFound(f"there is no report {id[:100]!r} here", code="report_not_found")

    async def reports(self, limit: int = 10_000) -> list[tuple[FalsePositiveReport, Any]]:
        return await self._call(lambda: self._store.reports(limit))

    async def counts(self) -> Mapping[str, int]:
        await self._expire()
        return await self._call(self._store.counts)

    async def close(self) -> None:
        await end_tasks((self._looking,))
        await self._thread.run(self._store.close)
        await asyncio.to_thread(self._thread.close, waiting=True)

    async def _expire(self) -> None:
        now = self._clock()
        expired = await self._call(lambda: self._store.expire(now, self._settings.keep_s))
        if expired:
            log.info("%d reviews expired and are denied", expired)

    async def _call(self, work: Callable[[], T]) -> T:
        """Run `work` on the queue's thread, shielded: a caller who leaves does not stop a write half-way. Raises
        `Overloaded` without its database."""
        try:
            done = await patient(self._thread.run(work))
        except (OSError, sqlite3.Error) as error:
            self._failed(error)
            raise unavailable("reviews") from error
        self._reason = ""
        return done

    def _failed(self, error: Exception) -> None:
        """Say so once, and look every so often whether it is over."""
        fault = error if isinstance(error, DatabaseUnavailable) else fault_of(self._place, error)
        reason = f"what rails want a person to see is refused, and so are reports: {fault}"
        if reason != self._reason:
            log.error("the review queue: %s", fault)
        self._reason = reason
        if is_damaged(error):  # what an operator puts in its place is taken by the next call
            self._thread.begin(self._store.close)
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look_until_well())

    async def _look_until_well(self) -> None:
        while self._reason:
            await asyncio.sleep(LOOK_S)
            with contextlib.suppress(Overloaded):
                await self._call(self._store.counts)


def review_queue(
    settings: ReviewSettings, environ: Mapping[str, str], database: Database | None = None
) -> ReviewQueue | None:
    """Make the review queue. Return None where the operator switched it off: what would be escalated is then
    blocked."""
    if not settings.enabled:
        return None
    sealer = sealer_of(settings.secret, "[review] secret")
    if database is not None:
        return ReviewQueue(PostgresReviewStore(database, sealer), settings)
    path = path_of(settings, environ)
    if path is None:
        log.info("[review] has no path and there is no home folder: held texts are kept in memory only")
    return ReviewQueue(SqliteReviewStore(path, sealer), settings, place=path)


def sealer_of(secret: str, name: str) -> Sealer | None:
    """Make a sealer; None where there is no secret. `name`: of the setting. Raises `ConfigurationError`."""
    if not secret:
        return None
    from sluicegate.cache.stores.sealing import TenantSealer

    try:
        return TenantSealer(bytes.fromhex(secret), name)
    except ValueError as error:
        raise ConfigurationError(f"{name} must be hexadecimal; `openssl rand -hex 32` makes one") from error


def path_of(settings: ReviewSettings, environ: Mapping[str, str]) -> Path | None:
    """Return the file of one machine's reviews; None where there is no place for one."""
    if settings.path:
        return Path(settings.path)
    state = environ.get("XDG_STATE_HOME") or (f"{environ['HOME']}/.local/state" if environ.get("HOME") else "")
    return Path(state) / "sluicegate" / "reviews.sqlite3" if state else None
