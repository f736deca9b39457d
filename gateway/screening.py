"""Slot `screen`: input rails at work on one request, each under the conduct that the request's policy gives it."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from gateway.exchange import Exchange
from gateway.spans import Note
from plugins import ContentBlocked, InputRail, RequestError, ScreenResult
from safety import Conduct

log = logging.getLogger("sluicegate.rails")
ACTIONS = ("pass", "redact", "block", "escalate")
T = TypeVar("T")


class Screening:
    """The input rails of one request. `asked` are those that want a person to look, with their reasons."""

    def __init__(self, exchange: Exchange) -> None:
        self.asked: list[tuple[str, str]] = []
        self._exchange = exchange
        self._watch = exchange.pinned.watch

    async def ask(self, name: str, rail: InputRail, conduct: Conduct, note: Note) -> None:
        """Raises `ContentBlocked`, or whatever the rail raised where that closes the request."""
        if not self._watch.runs("screen", name, conduct):
            self._passed_over(name, "out of the way after repeated failures", note)
            return
        try:
            result = await self._judged(rail, conduct)
        except RequestError:
            if conduct.mode == "shadow":
                note.outcome = "shadow block"
                return
            raise
        except Exception as error:
            self._watch.failed("screen", name, conduct)
            if not conduct.may_fail:
                raise
            log.warning("rail %s of slot screen failed and may: %s", name, type(error).__name__)
            self._passed_over(name, type(error).__name__, note)
            return
        self._watch.succeeded("screen", name)
        self._act(name, result, conduct, note)

    async def _judged(self, rail: InputRail, conduct: Conduct) -> ScreenResult:
        exchange = self._exchange
        result = await within(conduct.budget_s, rail.screen(exchange.request, exchange.caller))
        if not isinstance(result, ScreenResult) or result.action not in ACTIONS:
            raise TypeError(f"screen() answered {type(result).__name__}")
        if result.action == "redact" and result.messages is None:
            raise TypeError("redact without messages")
        return result

    def _act(self, name: str, result: ScreenResult, conduct: Conduct, note: Note) -> None:
        action = conduct.action(result.action, result.score)
        reason = result.reason or (f"{name}: score {result.score:.2f}" if result.score is not None else name)
        note.detail |= {k: v for k, v in (("reason", result.reason), ("score", result.score)) if v}
        if conduct.mode == "shadow":
            note.outcome = f"shadow {action}"
            return
        note.outcome = action
        if action == "block":
            raise ContentBlocked(name, reason)
        if result.messages is not None:
            self._exchange.request = dataclasses.replace(self._exchange.request, messages=result.messages)
        self._exchange.restore |= result.restore
        if action == "escalate":
            self.asked.append((name, reason))

    def _passed_over(self, name: str, why: str, note: Note) -> None:
        note.outcome = "failed open"
        note.detail["reason"] = why
        self._exchange.unenforced.append(f"screen {name}: failed open")


async def within(budget_s: float | None, work: Coroutine[Any, Any, T]) -> T:
    """What `work` answers in time; else `TimeoutError`, also where it does not heed its cancellation."""
    if budget_s is None:
        return await work
    began = time.perf_counter()
    task = asyncio.ensure_future(work)
    try:
        done, _ = await asyncio.wait((task,), timeout=budget_s)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if not done:
        task.cancel()
        task.add_done_callback(_forget)
        raise TimeoutError(f"took longer than {budget_s:g} s")
    if (took := time.perf_counter() - began) > budget_s:  # it kept the event loop to itself
        raise TimeoutError(f"took {took:.3f} s of {budget_s:g} s")
    return task.result()


def _forget(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()
