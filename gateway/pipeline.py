"""The way of a request, on one screen.

    admit -> screen -> route -> assemble -> recall -> constrain -> generate -> moderate -> record

`open` does all that must be settled before the first byte, so that its errors can still become an HTTP status;
`stream` and `collect` deliver. Whatever happens, every request is recorded exactly once.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from opentelemetry import context as otel

from cache import Question, TieredCache
from gateway.config import PromptSettings
from gateway.exchange import Delta, Exchange
from gateway.judging import Judgement, judge
from gateway.moderation import PENDING, REFUSAL, Moderation
from gateway.policy import Policies
from gateway.prompts import Kitchen
from gateway.rails import RailWatch, arm, limits_of, settle
from gateway.recall import Replay, hit_detail, question_for, recalled, remember
from gateway.regions import Regions
from gateway.restoring import Restoring, with_values
from gateway.review import ReviewQueue, hold_answer, hold_request
from gateway.routing.places import Places
from gateway.screening import Screening
from gateway.shape import Shape, shape_of
from gateway.spans import Spans, error_code
from gateway.telemetry import Metrics
from gateway.tighter import without
from gateway.tools import check_tools
from gateway.upstream.model import is_remote, judged
from gateway.validation import Validator
from plugins import (
    Admitter,
    Answer,
    Assembler,
    Caller,
    CompiledGrammar,
    Constrainer,
    ContentBlocked,
    Embeddings,
    Generation,
    GenerationFailed,
    Generator,
    InputRail,
    Job,
    NotFound,
    OutputRail,
    Overloaded,
    Piece,
    Recorder,
    Request,
    RequestError,
    Router,
    ServedModel,
    ServiceError,
    TextEmbedder,
    UpstreamFailed,
    Usage,
)

log = logging.getLogger("sluicegate.pipeline")
WHOLE = ("stop", "tool_calls")
"""How a choice ends that says all it had to say."""
ELSEWHERE = (Overloaded, GenerationFailed, UpstreamFailed)
"""What another model may make good."""
MAX_ATTEMPTS = 3
"""Generations tried for one non-streamed structured answer before giving up; more than one is already a bug."""


@dataclass(frozen=True, slots=True)
class Stages:
    """(name, stage) by slot, in the order of the configuration."""

    admit: Sequence[tuple[str, Admitter]]
    screen: Sequence[tuple[str, InputRail]]
    route: tuple[str, Router]
    assemble: tuple[str, Assembler]
    recall: Sequence[tuple[str, TieredCache]]
    constrain: tuple[str, Constrainer]
    generate: tuple[str, Generator]
    moderate: Sequence[tuple[str, OutputRail]]
    record: Sequence[tuple[str, Recorder]]
    policies: Policies = field(default_factory=Policies)
    watch: RailWatch = field(default_factory=RailWatch)
    fingerprint: str = ""
    """Digest of the configuration of every stage that shapes an answer; part of every cache key."""
    kitchen: Kitchen = field(default_factory=lambda: Kitchen(PromptSettings()))
    places: Places = field(default_factory=lambda: Places({}))
    instead: Callable[..., str | None] = lambda *arguments: None
    """`Routing.instead`: who answers where a model cannot."""
    begun: Callable[[Exchange], None] = lambda exchange: None
    """Told of each request whose generation has begun."""


class Pipeline:
    def __init__(self, stages: Stages, metrics: Metrics, spans: Spans, reviews: ReviewQueue | None = None) -> None:
        """`stages` may be replaced at any time: requests end on those that they began with."""
        self.stages = stages
        self._reviews = reviews
        self._metrics = metrics
        self._spans = spans
        self._validator = Validator()

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
            await self._admit(exchange)
            arm(exchange)
            check_tools(exchange.request, exchange.caller)
            exchange.request = exchange.pinned.kitchen.expand(exchange.request)
            await self._screen(exchange, reviews)
            await self._route(exchange)
        except BaseException as error:
            if isinstance(error, ContentBlocked):
                error.request_id = request.id
                if self._reviews is not None:
                    self._reviews.remember(request, exchange.caller.tenant, error.rail)
            await self.close(exchange, error)
            raise
        return exchange

    async def judge(self, request: Request, parent: otel.Context | None = None, *, route: str = "") -> list[Judgement]:
        """What the rails say about each message, one by one; nothing is generated."""
        exchange = self._spans.begin(request, parent)
        self._pin(exchange, route)
        error: BaseException | None = None
        try:
            await self._admit(exchange)
            arm(exchange)
            return [await judge(exchange, message.content) for message in request.messages]
        except BaseException as failure:
            error = failure
            raise
        finally:
            await self.close(exchange, error)

    async def embed(self, exchange: Exchange, texts: Sequence[str]) -> Embeddings:
        """Texts of an entered exchange as vectors, by the generator; the exchange is then over."""
        error: BaseException | None = None
        name, generator = exchange.pinned.generate
        try:
            if not isinstance(generator, TextEmbedder):
                raise RequestError(f"generator {name!r} makes no embeddings", param="model", code="unsupported_model")
            with self._spans.timed(exchange, "generate", name) as note:
                found = await generator.embed(texts, model=exchange.served.name)
                exchange.read = Usage(prompt_tokens=sum(found.tokens))
                note.outcome = f"{len(found.tokens)} embeddings"
            return found
        except BaseException as failure:
            error = failure
            raise
        finally:
            await self.close(exchange, error)

    async def answer_with(self, request: Request, caller: Caller, model: str) -> None:
        """A request that was admitted and screened already goes to `model`, without fallback; only recorders get the
        answer. Raises a `SluicegateError`."""
        exchange = self._spans.begin(request, None)
        exchange.stages, exchange.caller = self.stages, caller
        error: BaseException | None = None
        try:
            arm(exchange)
            exchange.model = self._served(model)
            await self._prepare(exchange)
            await self._collect_valid(exchange)
        except BaseException as failure:
            error = failure
            raise
        finally:
            await self.close(exchange, error)

    async def stream(self, exchange: Exchange) -> AsyncGenerator[Delta, None]:
        """Moderated deltas as soon as the rails clear them. Closing the iterator early cancels the generation."""
        error: BaseException | None = None
        waiting: list[Delta] = []  # ends of choices that a person has to look at first
        try:
            restoring = Restoring(exchange) if exchange.restore else None
            async for delta in self._moderate(exchange):
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
            await self._remember(exchange)
        except BaseException as failure:
            error = failure
            raise
        finally:
            await self.close(exchange, error)

    async def collect(self, exchange: Exchange) -> list[Answer]:
        """All choices, whole. A structured answer that the independent validator refuses is generated again."""
        error: BaseException | None = None
        try:
            await self._collect_from_any(exchange)
            await self._hand_over(exchange)
            await self._remember(exchange)
        except BaseException as failure:
            error = failure
            raise
        finally:
            await self.close(exchange, error)
        if exchange.restore:
            exchange.answers = [self._with_values(exchange, answer) for answer in exchange.answers]
        return exchange.answers

    def _with_values(self, exchange: Exchange, answer: Answer) -> Answer:
        """As the caller may see it; where the values would break the schema, as the model wrote it."""
        told = with_values(exchange, answer)
        if self._complaint(exchange.request, told) is None:
            return told
        exchange.unenforced.append(f"pseudonyms: choice {answer.index} is not restored, the values break its schema")
        return answer

    def _pin(self, exchange: Exchange, route: str) -> None:
        exchange.stages, exchange.route = self.stages, route
        self.stages.watch.entered()

    async def close(self, exchange: Exchange, error: BaseException | None = None) -> None:
        """Stop the engine's work and record the outcome; idempotent."""
        exchange.cancel()
        _give_up(exchange)
        if exchange.recorded:
            return
        exchange.recorded = True
        exchange.error = None if error is None else error_code(error)
        await self._record(exchange)
        exchange.pinned.watch.left()

    # --- one method per slot, in the order they run ------------------------------------------------------------

    async def _admit(self, exchange: Exchange) -> None:
        for name, stage in exchange.pinned.admit:
            with self._spans.timed(exchange, "admit", name) as note:
                caller = await stage.admit(exchange.request, exchange.caller)
                note.outcome = caller.key_id or caller.tenant
                exchange.caller = caller

    async def _screen(self, exchange: Exchange, reviews: ReviewQueue | None) -> None:
        asked_for, screening = exchange.request, Screening(exchange)
        for name, rail in exchange.pinned.screen:
            conduct = exchange.policy.conduct("screen", name)
            if conduct.mode != "off":
                with self._spans.timed(exchange, "screen", name) as note:
                    await screening.ask(name, rail, conduct, note)
        asked = [(name, reason) for name, reason in screening.asked if name not in exchange.approved]
        if asked:
            held = await hold_request(reviews, exchange, asked_for, asked)
            raise ContentBlocked(*asked[0]) if held is None else held

    async def _route(self, exchange: Exchange) -> None:
        name, router = exchange.pinned.route
        models = exchange.pinned.generate[1].models
        with self._spans.timed(exchange, "route", name) as note:
            chosen = await router.route(exchange.request, exchange.caller, models)
            exchange.model = models[chosen]
            note.outcome = chosen

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
            exchange.request = await exchange.pinned.kitchen.arrange(exchange.unarranged, exchange.served)
        await self._assemble(exchange)
        await self._recall(exchange)
        await self._constrain(exchange)
        await self._generate(exchange)

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
        _give_up(exchange)
        exchange.cached = exchange.hit = exchange.grammar = exchange.generation = None
        exchange.seat = exchange.place = None
        exchange.recalls.clear()
        exchange.model = models[found]

    def _served(self, name: str) -> ServedModel:
        models = self.stages.generate[1].models
        if name not in models:
            raise NotFound(f"there is no model {name!r} here", param="model", code="model_not_found")
        return models[name]

    async def _assemble(self, exchange: Exchange) -> None:
        name, assembler = exchange.pinned.assemble
        with self._spans.timed(exchange, "assemble", name) as note:
            exchange.prompt = await assembler.assemble(exchange.request, exchange.served)
            note.outcome = f"{len(exchange.prompt.token_ids)} tokens"
        exchange.shape = (
            Shape(judged(exchange.request.constraint))
            if is_remote(exchange.served)
            else shape_of(exchange.request, exchange.prompt)
        )

    async def _recall(self, exchange: Exchange) -> None:
        caches = [cache for _, cache in exchange.pinned.recall]
        fingerprint = exchange.pinned.fingerprint + exchange.policy.fingerprint
        question = question_for(exchange.request, exchange.caller, exchange.served, fingerprint, caches)
        exchange.question = question
        if question is None or not exchange.pinned.recall:
            return
        for name, cache in exchange.pinned.recall:
            with self._spans.timed(exchange, "recall", name) as note:
                recall = await recalled(name, cache, question)
                exchange.recalls.append((name, cache, recall))
                if recall.found is not None and self._all_valid(exchange.request, recall.found.answers):
                    exchange.hit, exchange.cached = recall.found, recall.found.answers
                    note.detail |= hit_detail(recall.found)
                note.outcome = "miss" if exchange.hit is None else f"{exchange.hit.kind} hit"
            if exchange.hit is not None:
                return
        await self._board(exchange, question)

    async def _board(self, exchange: Exchange, question: Question) -> None:
        """Of identical requests at the same time one generates; the others wait for its answer here."""
        name, cache = exchange.pinned.recall[0]
        with self._spans.timed(exchange, "recall", f"{name} flight") as note:
            exchange.seat = await cache.flights.board(question.key)
            answers = exchange.seat.answers
            if answers is not None and self._all_valid(exchange.request, answers):
                exchange.cached = answers
            note.outcome = exchange.seat.role if exchange.cached is None else "shared"

    async def _constrain(self, exchange: Exchange) -> None:
        constraint = exchange.shape.constraint or getattr(self.stages.constrain[1], "unconstrained", None)
        if constraint is None or exchange.cached is not None:
            return
        name, constrainer = exchange.pinned.constrain
        with self._spans.timed(exchange, "constrain", name) as note:
            exchange.grammar = await constrainer.compile(constraint, exchange.served)
            if not isinstance(exchange.grammar, CompiledGrammar):  # None would mean that everything is allowed
                raise TypeError(f"compile() answered {exchange.grammar!r}")
            self._validator.prepare(exchange.request)
            note.outcome = constraint.kind
            if exchange.not_enforced:
                note.detail["not_enforced"] = list(exchange.not_enforced)

    async def _generate(self, exchange: Exchange) -> None:
        if exchange.cached is not None:
            exchange.generation = Replay(exchange.cached)
            return
        name, generator = exchange.pinned.generate
        request, prompt = exchange.request, exchange.prompt
        assert prompt is not None
        with self._spans.timed(exchange, "generate", name) as note:
            job = Job(
                request_id=request.id,
                model=exchange.served.name,
                prompt=prompt,
                sampling=request.sampling,
                grammar=exchange.grammar,
                n=request.n,
                tenant=exchange.caller.tenant,
                priority=request.priority,
                deadline_s=request.deadline_s,
                version=exchange.served.version,
                explain=request.explain,
                traceparent=exchange.trace.traceparent,
                request=request,
            )
            exchange.pinned.places.shed(generator, job.model, job.priority)
            if exchange.place is None:
                exchange.place = await exchange.pinned.places.take(job.model, job.priority)
            exchange.generation = await generator.generate(job)
            note.outcome = "queued"

    async def _moderate(self, exchange: Exchange) -> AsyncGenerator[Delta, None]:
        moderation = Moderation(exchange.rails, exchange.request, exchange.caller, limits_of(exchange))
        exchange.moderation = moderation
        started = time.perf_counter()
        assert exchange.generation is not None
        try:
            async for piece in _pieces(exchange):
                for delta in moderation.feed(piece):
                    exchange.released()
                    yield delta
                if moderation.finished:
                    break
        finally:
            exchange.answers = moderation.answers()
            settle(exchange, moderation)
            self._spans.delivered(exchange, moderation.decisions(), started)

    async def _record(self, exchange: Exchange) -> None:
        outcome = exchange.outcome()
        self._spans.finish(exchange)
        for name, recorder in exchange.pinned.record:
            try:
                await recorder.record(outcome)
            except Exception:
                log.exception("recorder %s failed; the request is unharmed", name)

    # --- what the slots share ----------------------------------------------------------------------------------

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
                async for _delta in self._moderate(exchange):
                    pass
            except GenerationFailed:
                if not refused:
                    raise
                break  # a dead end of the tighter grammar
            answers = exchange.answers
            if await self._avoids(exchange):
                refused = answers
                continue
            complaint = next(filter(None, (self._complaint(exchange.request, a) for a in exchange.answers)), None)
            if complaint is None:
                return
            if exchange.moderation is not None and exchange.moderation.redacted:
                exchange.answers = [_refused(answer) for answer in exchange.answers]
                return
            await self._regenerate(exchange, complaint)
        if not refused:
            raise GenerationFailed("no valid structured answer could be generated; this is a bug of the gateway")
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
            await self._constrain(exchange)
            await self._generate(exchange)
        except RequestError:  # nothing else can stand there, or the grammar cannot be told so
            exchange.request, exchange.grammar = asked, grammar
            return False
        log.info("request %s: a value could not be redacted where it stood; generating without it", asked.id)
        return True

    async def _regenerate(self, exchange: Exchange, complaint: str) -> None:
        self._metrics.invalid_answers.inc()
        log.error("request %s: an answer broke its schema (%s); generating again", exchange.request.id, complaint)
        seed = (exchange.request.sampling.seed or 0) + 1
        sampling = dataclasses.replace(exchange.request.sampling, seed=seed, temperature=1.0)
        exchange.request = dataclasses.replace(exchange.request, sampling=sampling)
        exchange.cached = None
        await self._constrain(exchange)
        await self._generate(exchange)

    async def _hand_over(self, exchange: Exchange) -> None:
        """What waits for a person goes to the queue; where there is none, or it cannot take it, it is refused."""
        moderation = exchange.moderation
        if moderation is None or not moderation.held:
            return
        whole = moderation.withheld()
        if self._all_valid(exchange.request, whole):
            exchange.review = await hold_answer(self._reviews, exchange, whole, moderation.asked)
        if exchange.review is None:
            exchange.answers = [
                dataclasses.replace(a, refusal=REFUSAL) if a.refusal == PENDING else a for a in exchange.answers
            ]

    def _check_streamed(self, exchange: Exchange, index: int) -> None:
        """Before the choice is called finished: a broken one ends as an error, which no client takes for an answer."""
        assert exchange.moderation is not None
        answer = exchange.moderation.answers()[index]
        complaint = self._complaint(exchange.request, with_values(exchange, answer) if exchange.restore else answer)
        if complaint is not None:
            self._metrics.invalid_answers.inc()
            log.error("request %s: a streamed answer broke its schema (%s)", exchange.request.id, complaint)
            raise GenerationFailed("the streamed answer does not satisfy its schema; discard it")

    def _complaint(self, request: Request, answer: Answer) -> str | None:
        return self._validator.complaint(request, answer) if answer.finish_reason in WHOLE else None

    def _all_valid(self, request: Request, answers: Sequence[Answer]) -> bool:
        return bool(answers) and not any(self._complaint(request, answer) for answer in answers)

    async def _remember(self, exchange: Exchange) -> None:
        if exchange.question is None or exchange.cached is not None:
            return
        answers = tuple(exchange.answers)
        whole = bool(answers) and all(a.finish_reason in WHOLE and a.refusal is None for a in answers)
        if exchange.seat is not None:
            exchange.seat.land(answers) if whole else exchange.seat.release()
        for name, cache, recall in exchange.recalls if whole else ():
            await remember(name, cache, exchange.question, answers, recall, exchange.usage)


def _give_up(exchange: Exchange) -> None:
    """Its seat among equals, and its place at the model."""
    if exchange.seat is not None:
        exchange.seat.abandon()
    if exchange.place is not None:
        exchange.place.give_back()


def _refused(answer: Answer) -> Answer:
    """A redaction left something that breaks the schema: the answer is refused as a whole."""
    return dataclasses.replace(answer, finish_reason="content_filter", refusal=REFUSAL, logprobs=(), tool_calls=())


def _pieces(exchange: Exchange) -> AsyncIterable[Piece]:
    """What is generated, by region: an output that is not all answer is taken apart first."""
    assert exchange.generation is not None
    plain = exchange.shape.is_plain or exchange.cached is not None
    return exchange.generation if plain else _by_region(exchange, exchange.generation)


async def _by_region(exchange: Exchange, generation: Generation) -> AsyncIterator[Piece]:
    regions = [Regions(exchange.shape) for _ in range(exchange.request.n)]
    async for piece in generation:
        if piece.channel != "content":  # a generator that knows the channels by itself
            yield piece
            continue
        for part in regions[piece.index].feed(piece):
            yield part
        exchange.thought_tokens = sum(region.thought_tokens for region in regions)
