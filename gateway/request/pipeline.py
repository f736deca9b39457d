"""The way of a request, on one screen.

    admit -> screen -> route -> assemble -> recall -> constrain -> generate -> moderate -> record

`open` does all that must be settled before the first byte, so that its errors can still become an HTTP status;
`stream` and `collect` deliver. Whatever happens, every request is recorded exactly once.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from opentelemetry import context as otel

from sluicegate.gateway.answer.lead import lead_of
from sluicegate.gateway.answer.shape import shape_of
from sluicegate.gateway.answer.tools import check_tools
from sluicegate.gateway.answer.validation import WHOLE, Validator
from sluicegate.gateway.prompts.lengths import SHORT, check_sampling, size_of
from sluicegate.gateway.rails.health import arm
from sluicegate.gateway.rails.moderation import PENDING, REFUSAL
from sluicegate.gateway.request.breaches import Breaches
from sluicegate.gateway.request.context import Delta, Exchange
from sluicegate.gateway.request.judge import Judgement, judge
from sluicegate.gateway.request.restore import Restoring, with_values
from sluicegate.gateway.request.slots import Slots, Stages
from sluicegate.gateway.request.spans import Spans, error_code
from sluicegate.gateway.request.tighter import without
from sluicegate.gateway.review import ReviewQueue, hold_answer
from sluicegate.gateway.telemetry import Metrics
from sluicegate.gateway.upstream.model import is_remote
from sluicegate.plugins import (
    Answer,
    Caller,
    ContentBlocked,
    Embeddings,
    GenerationFailed,
    NotFound,
    Overloaded,
    Request,
    RequestError,
    ServedModel,
    ServiceError,
    TextEmbedder,
    UpstreamFailed,
    Usage,
)

log = logging.getLogger("sluicegate.pipeline")
ELSEWHERE = (Overloaded, GenerationFailed, UpstreamFailed)
"""What another model may make good."""
MAX_ATTEMPTS = 3
"""Generations tried for one non-streamed structured answer before giving up; more than one is already a bug."""


class Pipeline:
    def __init__(self, stages: Stages, metrics: Metrics, spans: Spans, reviews: ReviewQueue | None = None) -> None:
        """`stages` may be replaced at any time: requests end on those that they began with."""
        self.stages = stages
        self._reviews = reviews
        self._breaches = Breaches(metrics)
        self._spans = spans
        self._validator = Validator()
        self._slots = Slots(spans, self._validator)

    async def open(
        self,
        request: Request,
        parent: otel.Context | None = None,
        *,
        route: str = "",
        approved: frozenset[str] = frozenset(),
    ) -> Exchange:
        """Run every slot up to `generate`. Raises a `SluicegateError`; the request is then already recorded.

        `route` is the path it came by; `approved` names input rails whose wish for a person to look was granted."""
        exchange = await self.enter(request, parent, route=route, approved=approved, reviews=self._reviews)
        try:
            await self._begin(exchange)
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
        reviews: ReviewQueue | None = None,
    ) -> Exchange:
        """Run `admit`, `screen` and `route`: all that comes before anything is made of the request. As `open`. Without
        `reviews` what a person would have to look at is refused."""
        exchange = self._spans.begin(request, parent)
        self._pin(exchange, route)
        exchange.approved = approved
        try:
            await self._slots.admit(exchange)
            arm(exchange)
            check_tools(exchange.request, exchange.caller)
            await self._expand(exchange)
            await self._slots.screen(exchange, reviews)
            await self._slots.route(exchange)
        except BaseException as error:
            if isinstance(error, ContentBlocked):
                error.request_id = request.id
                if self._reviews is not None:
                    self._reviews.remember(request, exchange.caller.tenant, error.rail)
            await self.close(exchange, error)
            raise
        return exchange

    async def _expand(self, exchange: Exchange) -> None:
        """What no model here could read goes no further; templates and documents become messages."""
        stages, request = exchange.pinned, exchange.request
        check_sampling(request.sampling)
        if request.nbytes:  # of what is small, assembling finds it out soon enough
            stages.lengths.check(request.messages, stages.generate[1].models.values())
        if request.parts is not None:
            size = request.nbytes
            exchange.request = await stages.workers.run(exchange.caller.tenant, size, stages.prompts.expand, request)

    async def judge(self, request: Request, parent: otel.Context | None = None, *, route: str = "") -> list[Judgement]:
        """What the rails say about each message, one by one; nothing is generated."""
        exchange = self._spans.begin(request, parent)
        self._pin(exchange, route)
        async with self._until_over(exchange):
            await self._slots.admit(exchange)
            arm(exchange)
            return [await judge(exchange, message.content) for message in request.messages]

    async def embed(self, exchange: Exchange, texts: Sequence[str]) -> Embeddings:
        """Texts of an entered exchange as vectors, by the generator; the exchange is then over."""
        name, generator = exchange.pinned.generate
        async with self._until_over(exchange):
            if not isinstance(generator, TextEmbedder):
                raise RequestError(f"generator {name!r} makes no embeddings", param="model", code="unsupported_model")
            with self._spans.timed(exchange, "generate", name) as note:
                read = await self._read(exchange, texts)
                found = await generator.embed(read, model=exchange.served.name)
                exchange.read = Usage(prompt_tokens=sum(found.tokens))
                note.outcome = f"{len(found.tokens)} embeddings"
            return found

    async def _read(self, exchange: Exchange, texts: Sequence[str]) -> Sequence[str | Sequence[int]]:
        """Large texts for a model of ours as token ids: made in a thread, and no more of them than can be read."""
        model, stages, size = exchange.served, exchange.pinned, size_of(exchange.request)
        if is_remote(model) or size <= SHORT:
            return texts
        most = model.context_length

        def tokenized() -> list[list[int]]:
            return [stages.lengths.token_ids(text, model, special=True, most=most, param="input") for text in texts]

        return await stages.workers.run(exchange.caller.tenant, size, tokenized)

    async def answer_with(self, request: Request, caller: Caller, model: str) -> None:
        """A request that was admitted and screened already goes to `model`, without fallback; only recorders get the
        answer. Raises a `SluicegateError`."""
        exchange = self._spans.begin(request, None)
        self._pin(exchange, "")
        exchange.caller = caller
        async with self._until_over(exchange):
            arm(exchange)
            exchange.model = self._served(model)
            await self._prepare(exchange)
            await self._collect_valid(exchange)

    async def stream(self, exchange: Exchange) -> AsyncGenerator[Delta, None]:
        """Moderated deltas as soon as the rails clear them. Closing the iterator early cancels the generation."""
        waiting: list[Delta] = []  # ends of choices that a person has to look at first
        async with self._until_over(exchange):
            restoring = Restoring(exchange) if exchange.restore else None
            async for delta in self._slots.moderate(exchange):
                if delta.finish_reason in WHOLE:
                    self._check_streamed(exchange, delta.index)
                if delta.refusal == PENDING:
                    waiting.append(delta)
                    continue
                for told in (delta,) if restoring is None else restoring.feed(delta):
                    yield told
            await self._hand_over(exchange)
            for delta in waiting:
                yield delta if exchange.review else dataclasses.replace(delta, refusal=REFUSAL)
            await self._slots.remember(exchange)

    async def collect(self, exchange: Exchange) -> list[Answer]:
        """All choices, whole. A structured answer that the independent validator refuses is generated again."""
        async with self._until_over(exchange):
            await self._collect_from_any(exchange)
            await self._hand_over(exchange)
            await self._slots.remember(exchange)
        if exchange.restore:
            exchange.answers = [self._with_values(exchange, answer) for answer in exchange.answers]
        return exchange.answers

    def _with_values(self, exchange: Exchange, answer: Answer) -> Answer:
        """As the caller may see it; where the values would break the schema, as the model wrote it."""
        told = with_values(exchange, answer)
        if self._validator.complaint_of_whole(exchange.request, told) is None:
            return told
        exchange.unenforced.append(f"pseudonyms: choice {answer.index} is not restored, the values break its schema")
        return answer

    @asynccontextmanager
    async def _until_over(self, exchange: Exchange) -> AsyncIterator[None]:
        """What happens inside ends the exchange, and how it ended is recorded."""
        error: BaseException | None = None
        try:
            yield
        except BaseException as failure:
            error = failure
            raise
        finally:
            await self.close(exchange, error)

    def _pin(self, exchange: Exchange, route: str) -> None:
        exchange.stages, exchange.route = self.stages, route
        exchange.lead = lead_of(exchange.request)  # before rails or templates change a word of it
        self.stages.rail_health.entered()

    async def close(self, exchange: Exchange, error: BaseException | None = None) -> None:
        """Stop the engine's work and record the outcome; idempotent."""
        exchange.cancel()
        _give_up(exchange)
        if exchange.recorded:
            return
        exchange.recorded = True
        exchange.error = None if error is None else error_code(error)
        exchange.by_caller = isinstance(error, RequestError)
        await self._slots.record(exchange)
        exchange.pinned.rail_health.left()

    # --- until a generation runs -------------------------------------------------------------------------------

    async def _begin(self, exchange: Exchange) -> None:
        """Up to a generation that runs, at another model where the first cannot."""
        while True:
            try:
                await self._prepare(exchange)
                break
            except ELSEWHERE as error:
                self._turn_elsewhere(exchange, error)
        exchange.pinned.begun(exchange)

    async def _prepare(self, exchange: Exchange) -> None:
        if exchange.request.parts is not None:
            exchange.unarranged = exchange.unarranged or exchange.request
            run = partial(exchange.pinned.workers.run, exchange.caller.tenant)
            exchange.request = await exchange.pinned.prompts.arrange(exchange.unarranged, exchange.served, run)
        await self._slots.assemble(exchange)
        await self._slots.recall(exchange)
        await self._slots.constrain(exchange)
        await self._slots.generate(exchange)

    def _turn_elsewhere(self, exchange: Exchange, error: ServiceError) -> None:
        """Raises `error` again where nobody else can answer."""
        exchange.failed.append(exchange.served.name)
        stages = exchange.pinned
        models = stages.generate[1].models
        found = stages.instead(exchange.failed, exchange.failed[0], exchange.request, exchange.caller, models)
        if found is None:
            raise error
        log.warning("request %s: %s instead of %s (%s)", exchange.request.id, found, exchange.failed[-1], error.code)
        exchange.cancel()
        exchange.supersede()
        _give_up(exchange)
        exchange.cached = exchange.hit = exchange.grammar = None
        exchange.seat = exchange.ticket = exchange.awaited = None
        exchange.recalls.clear()
        exchange.model = models[found]

    def _served(self, name: str) -> ServedModel:
        models = self.stages.generate[1].models
        if name not in models:
            raise NotFound(f"there is no model {name!r} here", param="model", code="model_not_found")
        return models[name]

    # --- until an answer is fit to leave -----------------------------------------------------------------------

    async def _collect_from_any(self, exchange: Exchange) -> None:
        """Nothing has left yet, so that another model may answer where this one breaks."""
        while True:
            try:
                return await self._collect_valid(exchange)
            except ELSEWHERE as error:
                self._turn_elsewhere(exchange, error)
                await self._begin(exchange)

    async def _collect_valid(self, exchange: Exchange) -> None:
        refused: list[Answer] = []
        for _ in range(MAX_ATTEMPTS):
            try:
                async for _delta in self._slots.moderate(exchange):
                    pass
            except GenerationFailed:
                if not refused:
                    raise
                break  # a dead end of the tighter grammar
            answers = exchange.answers
            if await self._avoids(exchange):
                refused = answers
                continue
            complaint = self._validator.first_complaint(exchange.request, exchange.answers)
            if complaint is None:
                return
            if exchange.moderation is not None and exchange.moderation.redacted:
                exchange.answers = [_refused(answer) for answer in exchange.answers]
                return
            await self._regenerate(exchange, complaint)
        if not refused:
            told = "no valid structured answer could be generated; this is a bug of the gateway"
            raise self._breaches.error(exchange, told)
        exchange.answers = refused

    async def _avoids(self, exchange: Exchange) -> bool:
        """Generate again under a grammar that cannot write what had to go and could not be replaced where it stood.
        False where there is no such thing, or no such grammar: the answer then stays refused."""
        texts = exchange.moderation.irreplaceable if exchange.moderation is not None else ()
        tighter = None if is_remote(exchange.served) else without(exchange.request, texts)
        if tighter is None or exchange.cached is not None or exchange.prompt is None:
            return False
        asked, grammar = exchange.request, exchange.grammar
        try:
            exchange.request, exchange.shape = tighter, shape_of(tighter, exchange.prompt)
            await self._slots.constrain(exchange)
            await self._slots.generate(exchange)
        except RequestError:  # nothing else can stand there, or the grammar cannot be told so
            exchange.request, exchange.grammar = asked, grammar
            return False
        log.info("request %s: a value could not be redacted where it stood; generating without it", asked.id)
        return True

    async def _regenerate(self, exchange: Exchange, complaint: str) -> None:
        self._breaches.note(exchange, complaint, "generated again")
        seed = (exchange.request.sampling.seed or 0) + 1
        sampling = dataclasses.replace(exchange.request.sampling, seed=seed, temperature=1.0)
        exchange.request = dataclasses.replace(exchange.request, sampling=sampling)
        exchange.cached = None
        await self._slots.constrain(exchange)
        await self._slots.generate(exchange)

    async def _hand_over(self, exchange: Exchange) -> None:
        """What waits for a person goes to the queue; where there is none, or it cannot take it, it is refused."""
        moderation = exchange.moderation
        if moderation is None or not moderation.held:
            return
        whole = moderation.withheld()
        if self._validator.all_valid(exchange.request, whole):
            exchange.review = await hold_answer(self._reviews, exchange, whole, moderation.asked)
        if exchange.review is None:
            exchange.answers = [
                dataclasses.replace(a, refusal=REFUSAL) if a.refusal == PENDING else a for a in exchange.answers
            ]

    def _check_streamed(self, exchange: Exchange, index: int) -> None:
        """Before the choice is called finished: a broken one ends as an error, which no client takes for an answer."""
        assert exchange.moderation is not None
        answer = exchange.moderation.answers()[index]
        told = with_values(exchange, answer) if exchange.restore else answer
        complaint = self._validator.complaint_of_whole(exchange.request, told)
        if complaint is not None:
            self._breaches.note(exchange, complaint, "ended as an error")
            raise self._breaches.error(exchange, "the streamed answer does not satisfy its schema; discard it")


def _give_up(exchange: Exchange) -> None:
    """Its seat among equals, its place at the model, and its first text."""
    if exchange.seat is not None:
        exchange.seat.abandon()
    if exchange.ticket is not None:
        exchange.ticket.give_back()
    if exchange.awaited is not None:
        exchange.awaited.gave_up()


def _refused(answer: Answer) -> Answer:
    """A redaction left something that breaks the schema: the answer is refused as a whole."""
    return dataclasses.replace(answer, finish_reason="content_filter", refusal=REFUSAL, logprobs=(), tool_calls=())
