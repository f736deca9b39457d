"""Slot `screen`: input rails at work on one request, each as the policy of the request says."""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Sequence
from functools import partial
from typing import TypeVar

from sluicegate.gateway.prompts.places import as_sent
from sluicegate.gateway.rails.stage_calls import LONGEST_S, within
from sluicegate.gateway.rails.verdicts import applied, categories_of, checked, joined, own_copy
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.tracing.timing import StageNote
from sluicegate.plugins import (
    Caller,
    ContentBlocked,
    InputRail,
    Message,
    Overloaded,
    Request,
    RequestError,
    ScreenResult,
    Text,
    as_messages,
    beside_messages,
    place_of,
    properties_of,
    texts_of,
    with_places,
)
from sluicegate.plugins.json_names import Path
from sluicegate.safety import BuiltIn, RailPolicy, is_built_in

log = logging.getLogger("sluicegate.rails")
T = TypeVar("T")
PROBE_S = 5.0
LONG_LIST = 65_536
"""The texts of a body of at least this many bytes, names in schemas included, are not collected on the event loop: it
takes about 3 ms."""


class Screening:
    """Runs the input rails on one request. `asked`: the rails that want a review, with their reasons; `refusals`: what
    each of them would say where no review is possible."""

    def __init__(self, exchange: Exchange) -> None:
        self.asked: list[tuple[str, str]] = []
        self.refusals: dict[str, ContentBlocked] = {}
        self._exchange = exchange
        self._watch = exchange.stages.rail_health
        self._listed = RequestTexts(exchange)

    async def ask(self, name: str, rail: InputRail, rail_policy: RailPolicy, note: StageNote) -> None:
        """Run one rail. Raises `ContentBlocked`, or the rail's own error where that closes the request."""
        if not self._watch.runs("screen", name, rail_policy):
            self._passed_over(name, "out of the way after repeated failures", note)
            return
        exchange = self._exchange
        try:
            result = await asked(exchange, rail, self._listed, exchange.request, rail_policy)
        except (RequestError, Overloaded):
            if rail_policy.mode == "shadow":
                note.outcome = "shadow block"
                return
            raise
        except Exception as error:
            await self._watch.failed_at_work("screen", name, rail_policy, lambda: sound(rail, rail_policy))
            if not rail_policy.may_fail:
                raise
            log.warning("rail %s of slot screen failed and may: %s", name, type(error).__name__)
            self._passed_over(name, type(error).__name__, note)
            return
        self._watch.succeeded("screen", name, rail_policy)
        self._act(name, result, rail_policy, note)

    def _act(self, name: str, result: ScreenResult, rail_policy: RailPolicy, note: StageNote) -> None:
        action = rail_policy.action(result.action, result.score)
        reason = result.reason or (f"{name}: score {result.score:.2f}" if result.score is not None else name)
        if result.reason or result.score:
            note.detail |= {k: v for k, v in (("reason", result.reason), ("score", result.score)) if v}
        if found := categories_of(result):
            note.detail["categories"] = found
        if rail_policy.mode == "shadow":
            note.outcome = f"shadow {action}"
            return
        note.outcome = action
        if action == "block":
            raise self._blocked(name, reason, result.told)
        if result.messages is not None or result.texts:
            self._replace(name, result, note)
        self._exchange.safety.restore |= result.restore
        if action == "escalate":
            self.asked.append((name, reason))
            self.refusals[name] = self._blocked(name, reason, result.told)

    def _replace(self, name: str, result: ScreenResult, note: StageNote) -> None:
        """Replace texts of the request. Raises `ContentBlocked` for a text that must not be replaced (`fixed`)."""
        try:
            self._exchange.request = applied(result, self._exchange.request)
        except ValueError as error:
            note.outcome = "block"
            reason = f"{error}, and holds what is not allowed"
            raise self._blocked(name, f"{result.reason}; {error}", reason) from None

    def _blocked(self, name: str, reason: str, told: str) -> ContentBlocked:
        """Return a refusal that names places of the request as it was sent, before templates and documents became
        messages."""
        request, places = self._exchange.request, []

        def spelled(path: Path) -> str:
            places.append(place_of(as_sent(request, path)))
            return places[-1]

        told = with_places(told, spelled)
        return ContentBlocked(name, reason, told, param=places[0] if len(places) == 1 else "messages")

    def _passed_over(self, name: str, why: str, note: StageNote) -> None:
        note.outcome = "failed open"
        note.detail["reason"] = why
        self._exchange.safety.unenforced.append(f"screen {name}: failed open")


class RequestTexts:
    """The texts of a request, listed once for all rails until one of them replaces the request."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._request: Request | None = None
        self._texts: list[Text] = []

    async def of(self, request: Request) -> list[Text]:
        """Return the texts of `request`; long requests are listed in a thread. Raises `RequestError` for texts that
        cannot be read."""
        if request is not self._request:
            self._texts = await self._list(request)
            self._request = request
        return self._texts

    async def _list(self, request: Request) -> list[Text]:
        exchange = self._exchange
        try:
            if request.nbytes <= LONG_LIST:
                return texts_of(request)
            return await exchange.stages.workers.run(exchange.caller.tenant, request.nbytes, texts_of, request)
        except (ValueError, RecursionError) as error:
            raise RequestError(f"the request cannot be screened: {error}", param="messages") from error


async def asked(
    exchange: Exchange, rail: InputRail, listed: RequestTexts, request: Request, rail_policy: RailPolicy
) -> ScreenResult:
    """Ask the rail about every text of `request`. Raises what it raised, `TypeError` or `ValueError` for nonsense,
    `TimeoutError`, `RequestError` for texts that nobody can read."""
    texts = await listed.of(request)
    limit_s = rail_policy.budget_s or LONGEST_S
    if not is_built_in(rail):
        return await _asked_stranger(rail, request, exchange.caller, limit_s)
    inline = rail.inline_chars
    chars = sum([len(text.text) for text in texts]) + rail.text_chars * len(texts)
    if chars <= inline:
        return _timed(rail_policy.budget_s, rail, request, texts, exchange.caller)
    work = exchange.stages.workers if inline else exchange.stages.rail_health.workers
    read = partial(rail.screen_now, request, texts, exchange.caller)
    turn = partial(work.run, exchange.caller.tenant, chars, read, inline_bytes=inline)
    return await within(limit_s, turn, "screen()")


def _timed(
    budget_s: float | None, rail: BuiltIn, request: Request, texts: Sequence[Text], caller: Caller
) -> ScreenResult:
    if budget_s is None:
        return rail.screen_now(request, texts, caller)
    began = time.perf_counter()
    result = rail.screen_now(request, texts, caller)
    if (took := time.perf_counter() - began) > budget_s:
        raise TimeoutError(f"took {took:.3f} s of {budget_s:g} s")
    return result


async def _asked_stranger(rail: InputRail, request: Request, caller: Caller, limit_s: float) -> ScreenResult:
    """Ask a plug-in; twice where it reads messages only and there are other texts."""
    result = await _one_answer(rail, request, caller, limit_s)
    properties = properties_of(rail)
    if (properties is not None and properties.reads == "texts") or result.action == "block":
        return result
    beside = beside_messages(request)
    if not beside:
        return result
    return joined(result, await _one_answer(rail, as_messages(request, beside), caller, limit_s), beside)


async def _one_answer(rail: InputRail, request: Request, caller: Caller, limit_s: float) -> ScreenResult:
    found = await within(limit_s, partial(rail.screen, own_copy(request), caller), "screen()")
    return checked(found, request)


async def sound(rail: InputRail, rail_policy: RailPolicy) -> bool:
    """Return whether the rail handles a short harmless text that it has not seen. If it does, the callers' texts made
    it fail, which is no reason to open its breaker."""
    probe = Request("probe", "probe", (Message("user", f"Hello {secrets.token_hex(4)}"),))
    try:
        limit_s = min(rail_policy.budget_s or PROBE_S, PROBE_S)
        await _one_answer(rail, probe, Caller(tenant="probe"), limit_s)
    except RequestError:
        return True
    except Exception:
        return False
    return True
