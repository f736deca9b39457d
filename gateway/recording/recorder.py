"""Record a random sample of answered or refused requests."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate.gateway.database import Database, DatabaseUnavailable, Tables, tables_of, unavailable
from sluicegate.gateway.database.flushing import Flushing
from sluicegate.gateway.database.sealing import secret_bytes
from sluicegate.gateway.recording.store import Chosen, ListedRecording, Recording, RecordingStore
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.tracing.capture import hidden
from sluicegate.gateway.review.items import request_to_json
from sluicegate.gateway.settings import RecordingSettings
from sluicegate.plugins import Answer, AuthenticationError, NotFound, Request, Trouble, Usage, exact_json

log = logging.getLogger("sluicegate.recording")
_NEVER_KEPT = frozenset({"cancelled", AuthenticationError.code, AuthenticationError.missing})
TRIM_EVERY = 30
"""Flushes between two checks of age and size."""
MAX_WAITING_BYTES = 32 * 1024**2
DAMAGED = (
    "requests of some callers are not recorded: the keys that seal them are damaged; the log names them, and "
    "DELETE /admin/recordings?key=ID takes what was recorded of one, with its key"
)
Costs = Callable[[str, Usage], int]
"""Cost of a model's tokens, in billionths."""


class RequestRecorder:
    """Used on the event loop. A request is on the disk about a second after it ended."""

    def __init__(self, settings: RecordingSettings, tables: Tables, cost: Costs) -> None:
        self._settings = settings
        self._tables = tables
        self._store = RecordingStore(tables, secret_bytes(settings.secret, "recording"))
        self._cost = cost
        self._waiting: list[Recording] = []
        self._waiting_bytes = 0
        self._flushing = Flushing("recorded requests", self._flush, self._trim, TRIM_EVERY, log)
        self._turn = asyncio.Lock()
        self._damaged = ""
        self._counts = {"kept_total": 0.0, "left_out_total": 0.0}

    async def start(self) -> None:
        self._flushing.start()

    async def close(self) -> None:
        if (error := await self._flushing.close()) is not None:
            log.error("%d requests are not recorded: %s", len(self._waiting), error)
        await asyncio.to_thread(self._tables.close)

    def stats(self) -> Mapping[str, float]:
        return {**self._counts, "waiting_bytes": float(self._waiting_bytes)}

    def troubles(self) -> Sequence[Trouble]:
        return [*self._flushing.troubles(), *([Trouble(self._damaged)] if self._damaged else [])]

    def note(self, exchange: Exchange) -> None:
        """Record a share of the requests. Called once for each request that has ended."""
        request = self._wanted(exchange)
        if request is None or random.random() >= self._settings.share:
            return
        body = exact_json.write({"request": request_to_json(request), "answers": recorded_answers(exchange)})
        fits = len(body) <= self._settings.max_request_bytes
        if not fits or self._waiting_bytes + len(body) > MAX_WAITING_BYTES:
            self._counts["left_out_total"] += 1
            return
        caller = exchange.caller
        found = Recording(
            request.id, caller.tenant, caller.key_id or "", request.user or "", facts_of(exchange, self._cost), body
        )
        self._waiting.append(found)
        self._waiting_bytes += len(body)

    def _wanted(self, exchange: Exchange) -> Request | None:
        """Return the request as it is to be kept; None where it is not. A request that no caller sent (a shadow, a
        judge's, a replay) came by no route and is not kept. A stranger's must not push out what callers asked."""
        if not exchange.entry.route or not exchange.request.messages or exchange.error in _NEVER_KEPT:
            return None
        if self._settings.texts == "received":
            return exchange.entry.received
        return exchange.screened if exchange.answers else None

    # --- for operators -----------------------------------------------------------------------------------------

    async def listed(self, chosen: Chosen, since_s: float, limit: int) -> list[ListedRecording]:
        return list(await self._call(lambda: self._store.listed(chosen, since_s, limit)))

    async def get(self, id: str) -> tuple[ListedRecording, Any]:
        """Return a recording and its body. Raises `NotFound`."""
        with contextlib.suppress(DatabaseUnavailable):  # what is written can be read while the disk is full
            await self._flush()
        found = await self._call(lambda: self._store.get(id))
        if found is None and any(one.id == id for one in self._waiting):
            raise unavailable("recorded requests")
        if found is None:
            raise NotFound(f"no request {id[:100]!r} is recorded", code="recording_not_found")
        listed, body = found
        return listed, body

    async def delete(self, chosen: Chosen) -> int:
        """Delete recordings and return how many. What was not written yet is written first, so that nothing of them
        comes later."""
        await self._call_flush()
        return int(await self._call(lambda: self._store.delete(chosen)))

    async def delete_one(self, id: str) -> int:
        await self._call_flush()
        return int(await self._call(lambda: self._store.delete_one(id)))

    async def _call(self, work: Callable[[], Any]) -> Any:
        try:
            return await self._tables.call(work)
        except DatabaseUnavailable as error:
            raise unavailable("recorded requests") from error

    async def _call_flush(self) -> None:
        try:
            await self._flush()
        except DatabaseUnavailable as error:
            raise unavailable("recorded requests") from error

    async def _trim(self) -> None:
        await self._tables.call(lambda: self._store.trim(self._settings.keep_s, self._settings.max_bytes))

    async def _flush(self) -> None:
        async with self._turn:  # who asks for a recording flushes, too: none is counted twice
            if not self._waiting:
                return
            found = self._waiting[:]
            left = await self._tables.call(lambda: self._store.add(found))
            taken = {one.id for one in found}
            self._waiting = [one for one in self._waiting if one.id not in taken]
            self._waiting_bytes = sum(len(one.body) for one in self._waiting)
        self._counts["kept_total"] += len(found) - len(left)
        self._counts["left_out_total"] += len(left)
        self._report(left)

    def _report(self, left: Sequence[Recording]) -> None:
        if left and not self._damaged:
            keys = ", ".join(sorted({one.key_id or one.tenant for one in left}))
            log.error("requests of %s are not recorded: the key that seals them is damaged", keys)
        self._damaged = DAMAGED if left else ""


def facts_of(exchange: Exchange, cost: Costs) -> dict[str, Any]:
    """Return the facts of a request that has ended, without any text."""
    model = exchange.model
    return {
        "asked": exchange.request.model,
        "model": model.name if model is not None else "",
        "version": model.version if model is not None else "",
        "policy": exchange.safety.policy.name,
        "route": exchange.entry.route,
        "tenant": exchange.caller.tenant,
        "key_id": exchange.caller.key_id,
        "team": exchange.caller.team,
        "verdict": verdict_of(exchange),
        "cached": exchange.cached is not None,
        "prompt_tokens": exchange.usage.prompt_tokens,
        "completion_tokens": exchange.usage.completion_tokens,
        "cost": cost(model.name, exchange.usage) / 1e9 if model is not None else 0.0,
        "seconds": round(exchange.duration_s, 6),
    }


def verdict_of(exchange: Exchange) -> str:
    """Return the outcome of the request: an error's code, `review`, `refused`, `redacted` or `passed`."""
    if exchange.error is not None:
        return exchange.error
    if exchange.review is not None:
        return "review"
    if any(answer.refusal is not None or answer.finish_reason == "content_filter" for answer in exchange.answers):
        return "refused"
    redacted = exchange.moderation is not None and exchange.moderation.redacted
    return "redacted" if redacted else "passed"


def recorded_answers(exchange: Exchange) -> list[dict[str, Any]]:
    """Return the answers, with placeholders for values that only the caller may see."""
    return [_recorded_answer(answer, exchange.safety.restore) for answer in exchange.answers]


def _recorded_answer(answer: Answer, restored: Mapping[str, str]) -> dict[str, Any]:
    calls = [{"name": call.name, "arguments": hidden(call.arguments, restored)} for call in answer.tool_calls]
    return {"text": hidden(answer.text, restored), "finish_reason": answer.finish_reason, "calls": calls}


def recorder_of(settings: RecordingSettings, database: Database | None, cost: Costs) -> RequestRecorder | None:
    """Make a recorder; None where nothing is recorded. Raises `ConfigurationError`."""
    return RequestRecorder(settings, tables_of(database, settings.path), cost) if settings.enabled else None
