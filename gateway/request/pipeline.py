"""The way of a request, on one screen.

    admit -> screen -> route -> retrieve -> assemble -> recall -> constrain -> generate -> moderate -> record

`open` does all that must be settled before the first byte, so that its errors can still become an HTTP status;
`stream` and `collect` deliver. Whatever happens, every request is recorded exactly once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from opentelemetry import context as otel

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.validation import WHOLE, Validator
from sluicegate.gateway.rails.moderation import PENDING, REFUSAL
from sluicegate.gateway.request import slots
from sluicegate.gateway.request.attempts import Attempts
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.embedding import Texts, embedded, scored
from sluicegate.gateway.request.guarding.holding import Holding
from sluicegate.gateway.request.guarding.judge import Judgement, judge
from sluicegate.gateway.request.guarding.restore import Restoring, restored_answer
from sluicegate.gateway.request.guarding.selection import choose_rails
from sluicegate.gateway.request.invalid_answers import InvalidAnswers
from sluicegate.gateway.request.output import Replay
from sluicegate.gateway.request.recall import remember
from sluicegate.gateway.request.retrieval import retrieve
from sluicegate.gateway.request.stages import Stages
from sluicegate.gateway.request.tracing.cited import cite
from sluicegate.gateway.request.tracing.live import LiveRequests
from sluicegate.gateway.request.tracing.timing import error_code, failure_of
from sluicegate.gateway.request.watching import Watching, cancel_judges, record_when_judged
from sluicegate.gateway.telemetry import Metrics, semconv
from sluicegate.plugins import (
    Answer,
    Caller,
    ContentBlocked,
    Embeddings,
    NotFound,
    Request,
    RequestError,
    Scores,
    SluicegateError,
)

log = logging.getLogger("sluicegate.pipeline")
NOBODY = Holding()


class Pipeline:
    """`stages` may be replaced at any time: requests end on those that they began with."""

    def __init__(self, stages: Stages, metrics: Metrics, live: LiveRequests, holding: Holding = NOBODY) -> None:
        self.stages = stages
        self._live = live
        self._holding = holding
        self._validator = Validator()
        self._breaches = InvalidAnswers(metrics, self._validator)
        self._attempts = Attempts(self._validator, self._breaches)
        self._over: list[Callable[[Exchange], None]] = []
        self._watching = Watching()

    def when_over(self, call: Callable[[Exchange], None]) -> None:
        """Call `call` with each request that has ended, once it is recorded."""
        self._over.append(call)

    def when_begun(self, call: Callable[[Exchange], None]) -> None:
        """Call `call` with each request whose generation has begun."""
        self._attempts.begun = call

    async def open(
        self,
        request: Request,
        parent: otel.Context | None = None,
        *,
        route: str = "",
        approved: frozenset[str] = frozenset(),
        waited_s: float = 0.0,
    ) -> Exchange:
        """Run every slot up to `generate`. Raises a `SluicegateError`; the request is then already recorded.

        `route` is the path it came by; `approved` names input rails whose wish for a person to look was granted;
        `waited_s` is how long it waited before it was read."""
        exchange = await self.enter(
            request,
            parent,
            route=route,
            approved=approved,
            holding=self._holding,
            retrieving=True,
            waited_s=waited_s,
        )
        try:
            await retrieve(exchange)
            await self._attempts.begin(exchange)
        except BaseException as error:
            await self.close(exchange, error)
            raise
        return exchange

    async def enter(
        self,
        request: Request,
        parent: otel.Context | None = None,
        *,
        route: str = "",
        approved: frozenset[str] = frozenset(),
        holding: Holding = NOBODY,
        operation: str = "",
        retrieving: bool = False,
        waited_s: float = 0.0,
    ) -> Exchange:
        """Run `admit`, `screen` and `route`, as `open`. What a person would have to look at is put aside by `holding`,
        or refused where that asks nobody. `operation`: as traces name it, where no answer is generated."""
        exchange = self._live.begin(
            request, parent, self.stages, route=route, approved=approved, operation=operation, waited_s=waited_s
        )
        try:
            await slots.admit(exchange)
            choose_rails(exchange)
            slots.check_tools(exchange.request, exchange.caller)
            await slots.expand(exchange, retrieving=retrieving)
            await slots.screen(exchange, holding)
            await slots.route(exchange)
        except BaseException as error:
            if isinstance(error, ContentBlocked):
                error.request_id = request.id
                self._holding.remember(request, exchange.caller, error.rail)
            await self.close(exchange, error)
            raise
        return exchange

    async def stream(self, exchange: Exchange) -> AsyncGenerator[Delta, None]:
        """Yield moderated deltas as soon as the rails clear them. Closing the iterator early cancels the generation."""
        waiting: list[Delta] = []  # ends of choices that a person has to look at first
        async with self._until_over(exchange):
            restoring = Restoring(exchange) if exchange.safety.restore else None
            async for delta in slots.moderate(exchange, self._validator):
                if delta.finish_reason in WHOLE:
                    self._breaches.check_streamed(exchange, delta.index)
                if delta.refusal == PENDING:
                    waiting.append(delta)
                    continue
                for shown in (delta,) if restoring is None else restoring.feed(delta):
                    yield shown
            await self._holding.hand_over(exchange, self._validator)
            for delta in waiting:
                yield delta if exchange.review else dataclasses.replace(delta, refusal=REFUSAL)
            await remember(exchange)
            if not exchange.safety.restore:  # offsets of what the client has not
                await cite(exchange, exchange.answers)

    async def collect(self, exchange: Exchange) -> list[Answer]:
        """Return all choices, whole. A structured answer that the independent validator refuses is generated again."""
        async with self._until_over(exchange):
            await self._attempts.collect(exchange)
            await self._holding.hand_over(exchange, self._validator)
            await remember(exchange)
        if exchange.safety.restore:
            exchange.answers = [restored_answer(exchange, answer, self._validator) for answer in exchange.answers]
        await cite(exchange, exchange.answers)
        return exchange.answers

    async def close(self, exchange: Exchange, error: BaseException | None = None, *, waits: bool = False) -> None:
        """Stop the engine's work and record the outcome; idempotent. Where judges in shadow mode still read, it is
        recorded later, unless the caller `waits` or wants to see what each stage decided."""
        exchange.attempt.give_up()
        if exchange.recorded:
            return
        exchange.recorded = True
        exchange.error = None if error is None else error_code(error)
        exchange.by_caller = isinstance(error, RequestError)
        exchange.duration_s = time.perf_counter() - exchange.entry.started_at
        exchange.failure = failure_of(error)
        if exchange.failure is not None and exchange.failure.cause:  # which the caller is not told
            log.warning("request %s failed: %s: %s", exchange.request.id, exchange.error, exchange.failure.cause)
        if error is not None:
            cancel_judges(exchange)
        if exchange.watched and not waits and not exchange.request.explain and self._watching.has_room:
            self._watching.record_later(exchange, self._record)
        else:
            await record_when_judged(exchange, self._record)

    async def end(self) -> None:
        """Wait a while for judges that read answers which have left. All requests are then recorded."""
        await self._watching.close()

    async def _record(self, exchange: Exchange) -> None:
        await slots.record(exchange, self._live)
        for call in self._over:
            try:
                call(exchange)
            except Exception:
                log.exception("request %s is not looked at any further; it is unharmed", exchange.request.id)
        exchange.stages.rail_health.left()

    # --- requests that take a part of the way ------------------------------------------------------------------

    async def judge(self, request: Request, parent: otel.Context | None = None, *, route: str = "") -> list[Judgement]:
        """Return what the rails say about each message, one by one. Nothing is generated."""
        exchange = self._live.begin(request, parent, self.stages, route=route, operation=semconv.OPERATION_MODERATION)
        async with self._until_over(exchange):
            await slots.admit(exchange)
            choose_rails(exchange)
            return [await judge(exchange, message.content) for message in request.messages]

    async def count(self, request: Request, parent: otel.Context | None = None, *, route: str = "") -> Exchange:
        """Assemble the prompt as for an answer, and close the exchange; nothing is generated, so no rail is asked."""
        exchange = self._live.begin(request, parent, self.stages, route=route, operation=semconv.OPERATION_COUNT)
        async with self._until_over(exchange):
            await slots.admit(exchange)
            slots.check_tools(exchange.request, exchange.caller)
            await slots.expand(exchange)
            await slots.route(exchange)
            await slots.arrange(exchange, screened=False)
            await slots.assemble(exchange)
        return exchange

    async def embed(self, exchange: Exchange, texts: Texts) -> Embeddings:
        """Embed the texts of an entered exchange with the generator. The exchange is then over."""
        async with self._until_over(exchange):
            return await embedded(exchange, texts)

    async def score(self, exchange: Exchange, query: str, texts: Sequence[str]) -> Scores:
        """Score with the generator how well the texts of an entered exchange answer `query`. The exchange is then
        over."""
        async with self._until_over(exchange):
            return await scored(exchange, query, texts)

    @asynccontextmanager
    async def elsewhere(
        self, request: Request, parent: otel.Context | None = None, *, route: str = "", by: str = ""
    ) -> AsyncIterator[Exchange]:
        """Admit a request that `by` carries out, and record it when that is over. `screen_again` and `moderate_answer`
        show its texts to the rails."""
        exchange = self._live.begin(request, parent, self.stages, route=route)
        exchange.elsewhere = by
        async with self._until_over(exchange):
            await slots.admit(exchange)
            choose_rails(exchange)
            yield exchange

    async def screen_again(self, exchange: Exchange, request: Request) -> Request:
        """Show `request`, which came up on the way of an exchange, to its input rails, and return what they leave of
        it. What a person would have to look at is refused."""
        exchange.request = request
        await slots.screen(exchange, NOBODY)
        return exchange.request

    async def moderate_answer(self, exchange: Exchange, answer: Answer) -> Answer:
        """Show a whole answer that nothing here generated to the output rails, and return what they leave of it."""
        exchange.attempt.generation = Replay((answer,))
        try:
            async for _ in slots.moderate(exchange, self._validator):
                pass
        finally:
            exchange.attempt.generation = None
        return exchange.answers[0]

    async def look_at(self, request: Request, caller: Caller, *, route: str = "") -> Request:
        """Screen an operator's own texts with the input rails; nobody is charged. Raises as `screen_again`."""
        exchange = self._live.begin(request, None, self.stages, route=route)
        exchange.caller = caller
        try:
            choose_rails(exchange)
            return await self.screen_again(exchange, request)
        finally:
            self._live.forget(exchange)
            exchange.stages.rail_health.left()

    async def answer_with(self, request: Request, caller: Caller, model: str) -> Exchange:
        """Answer a request that was admitted and screened already with `model`, without fallback. The exchange is then
        over. Raises a `SluicegateError`."""
        exchange = self._live.begin(request, None, self.stages)
        exchange.caller = caller
        async with self._until_over(exchange, waits=True):
            choose_rails(exchange)
            models = exchange.stages.generate[1].models
            if model not in models:
                raise NotFound(f"there is no model {model!r} here", param="model", code="model_not_found")
            exchange.model = models[model]
            await self._attempts.prepare(exchange)
            await self._attempts.collect_valid(exchange)
        return exchange

    async def replay(
        self, request: Request, asker: Caller, caller: Caller, *, route: str = "", policy: str = ""
    ) -> Exchange:
        """Ask once more what `asker` asked by `route`, without fallback, under `policy` or the one that claims it,
        charged to `caller`. The exchange is over; what went wrong stands in its `error`. Raises `NotFound` for the
        model and `RequestError` for the policy."""
        stages = self.stages
        chosen = stages.policies.named(policy) if policy else stages.policies.of(request, asker, route)
        if chosen is None:
            known = ", ".join(stages.policies.names)
            raise RequestError(f"there is no policy {policy!r}; known: {known}", param="policy")
        models = stages.generate[1].models
        model = models[await stages.route[1].route(request, caller, models)]
        stages.drawn(request.id)  # says nothing of how the version does with requests of today
        exchange = self._live.begin(request, None, stages)
        exchange.caller = caller
        with contextlib.suppress(SluicegateError):
            async with self._until_over(exchange, waits=True):
                choose_rails(exchange, chosen)
                await slots.expand(exchange)
                await slots.screen(exchange, NOBODY)
                exchange.model = model
                await self._attempts.prepare(exchange)
                await self._attempts.collect_valid(exchange)
        return exchange

    def _until_over(self, exchange: Exchange, *, waits: bool = False) -> _ExchangeScope:
        return _ExchangeScope(self, exchange, waits)


class _ExchangeScope:
    """Context manager that closes and records an exchange at its end. A class, because a generator would cost more than
    this work."""

    __slots__ = ("_exchange", "_pipeline", "_waits")

    def __init__(self, pipeline: Pipeline, exchange: Exchange, waits: bool) -> None:
        self._pipeline, self._exchange, self._waits = pipeline, exchange, waits

    async def __aenter__(self) -> None:
        """Do nothing: nothing is prepared."""

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        await self._pipeline.close(self._exchange, error, waits=self._waits)
