"""The slots of a request's way, one method each, in the order in which they run. `gateway.request.pipeline` calls them.

Each stage leaves a note of when it began and what it decided (`Spans.timed`); a request runs on the stages that were in
place when it was opened, whatever is configured meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace

from sluicegate.cache import Made, Question, TieredCache
from sluicegate.gateway.answer.content_stops import ContentStops
from sluicegate.gateway.answer.regions import Regions
from sluicegate.gateway.answer.shape import Shape, shape_of
from sluicegate.gateway.answer.validation import WHOLE, Validator
from sluicegate.gateway.prompts import PromptBuilder
from sluicegate.gateway.prompts.lengths import Lengths, size_of
from sluicegate.gateway.rails.health import RailHealth, limits_of, settle
from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.gateway.rails.policy import Policies
from sluicegate.gateway.request.context import Delta, Exchange
from sluicegate.gateway.request.recall import Replay, hit_detail, keep, question_for, recalled, unheeded_wishes
from sluicegate.gateway.request.screening import Screening
from sluicegate.gateway.request.spans import Spans
from sluicegate.gateway.review import ReviewQueue, hold_request
from sluicegate.gateway.routing.queues import ModelQueues
from sluicegate.gateway.settings import PromptSettings
from sluicegate.gateway.upstream.model import is_remote, judged
from sluicegate.gateway.workers import Workers
from sluicegate.plugins import (
    Admitter,
    Assembler,
    CompiledGrammar,
    Constrainer,
    Constraint,
    ContentBlocked,
    FairConstrainer,
    Generation,
    Generator,
    GrammarError,
    InputRail,
    Job,
    OutputRail,
    Piece,
    Prompt,
    Recorder,
    Reuse,
    Router,
    Sampling,
)

log = logging.getLogger("sluicegate.pipeline")


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
    rail_health: RailHealth = field(default_factory=RailHealth)
    fingerprint: str = ""
    """Digest of the configuration of every stage that shapes an answer; part of every cache key."""
    prompts: PromptBuilder = field(default_factory=lambda: PromptBuilder(PromptSettings()))
    queues: ModelQueues = field(default_factory=lambda: ModelQueues({}))
    workers: Workers = field(default_factory=Workers)
    """Threads for what is large."""
    lengths: Lengths = field(default_factory=Lengths)
    instead: Callable[..., str | None] = lambda *arguments: None
    """`Routing.instead`: who answers where a model cannot."""
    begun: Callable[[Exchange], None] = lambda exchange: None
    """Told of each request whose generation has begun."""


DIGESTED = 64 * 1024
"""Bytes that become a cache key within a millisecond or two."""


class Slots:
    def __init__(self, spans: Spans, validator: Validator) -> None:
        self._spans = spans
        self._validator = validator

    async def admit(self, exchange: Exchange) -> None:
        for name, stage in exchange.pinned.admit:
            with self._spans.timed(exchange, "admit", name) as note:
                caller = await stage.admit(exchange.request, exchange.caller)
                note.outcome = caller.key_id or caller.tenant
                exchange.caller = caller

    async def screen(self, exchange: Exchange, reviews: ReviewQueue | None) -> None:
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

    async def route(self, exchange: Exchange) -> None:
        name, router = exchange.pinned.route
        models = exchange.pinned.generate[1].models
        with self._spans.timed(exchange, "route", name) as note:
            chosen = await router.route(exchange.request, exchange.caller, models)
            exchange.model = models[chosen]
            note.outcome = chosen

    async def assemble(self, exchange: Exchange) -> None:
        name, assembler = exchange.pinned.assemble
        with self._spans.timed(exchange, "assemble", name) as note:
            exchange.prompt = await self._assembled(exchange, assembler)
            note.outcome = f"{len(exchange.prompt.token_ids)} tokens"
        exchange.shape = (
            Shape(judged(exchange.request.constraint))
            if is_remote(exchange.served)
            else shape_of(exchange.request, exchange.prompt)
        )

    async def _assembled(self, exchange: Exchange, assembler: Assembler) -> Prompt:
        """A stage that says so (`assembled`) renders and tokenises what is large in a thread."""
        request, model = exchange.request, exchange.served
        in_thread = getattr(assembler, "assembled", None)
        if in_thread is None:
            return await assembler.assemble(request, model)
        work = exchange.pinned.workers
        prompt: Prompt = await work.run(exchange.caller.tenant, size_of(request), in_thread, request, model)
        return prompt

    async def recall(self, exchange: Exchange) -> None:
        size = exchange.request.nbytes
        work, tenant = exchange.pinned.workers, exchange.caller.tenant
        question = await work.run(tenant, size, self._question, exchange, inline_bytes=DIGESTED)
        if question is None:
            return
        for name, cache in exchange.pinned.recall:
            with self._spans.timed(exchange, "recall", name) as note:
                recall = await recalled(name, cache, question)
                exchange.recalls.append((name, cache, recall))
                if recall.found is not None and self._validator.all_valid(exchange.request, recall.found.answers):
                    exchange.hit, exchange.cached = recall.found, recall.found.answers
                    note.detail |= hit_detail(recall.found)
                note.outcome = "miss" if exchange.hit is None else f"{exchange.hit.kind} hit"
            if exchange.hit is not None:
                return
        await self._board(exchange, question)

    def _question(self, exchange: Exchange) -> Question | None:
        """None where no cache is asked."""
        caches = [cache for _, cache in exchange.pinned.recall]
        question = None
        if caches:
            fingerprint = exchange.pinned.fingerprint + exchange.policy.fingerprint
            question = question_for(exchange.request, exchange.caller, exchange.served, fingerprint, caches)
        if exchange.request.reuse != Reuse():
            unheeded = unheeded_wishes(exchange.request, question, caches)
            exchange.ignored = tuple(dict.fromkeys((*exchange.ignored, *unheeded)))
        exchange.question = question
        return question

    async def _board(self, exchange: Exchange, question: Question) -> None:
        """Of identical requests at the same time one generates; the others wait for its answer here."""
        name, cache = exchange.pinned.recall[0]
        with self._spans.timed(exchange, "recall", f"{name} flight") as note:
            exchange.seat = await cache.flights.board(question.key)
            made = exchange.seat.answers
            if made is not None and self._validator.all_valid(exchange.request, made.answers):
                exchange.cached = made.answers
            note.outcome = exchange.seat.role if exchange.cached is None else "shared"

    async def constrain(self, exchange: Exchange) -> None:
        if is_remote(exchange.served) and exchange.request.callable_tools and exchange.cached is None:
            self._validator.prepare(exchange.request)
            exchange.tool_grammars = await self._of_tools(exchange)
        constraint = exchange.shape.constraint or _of_free_text(exchange.pinned.constrain[1])
        if constraint is None or exchange.cached is not None:
            return
        name, constrainer = exchange.pinned.constrain
        with self._spans.timed(exchange, "constrain", name) as note:
            if isinstance(constrainer, FairConstrainer):
                exchange.grammar = await constrainer.compile_for(exchange.caller.tenant, constraint, exchange.served)
            else:
                exchange.grammar = await constrainer.compile(constraint, exchange.served)
            if not isinstance(exchange.grammar, CompiledGrammar):  # None would mean that everything is allowed
                raise TypeError(f"compile() answered {exchange.grammar!r}")
            self._validator.prepare(exchange.request)
            note.outcome = constraint.kind
            if exchange.not_enforced:
                note.detail["not_enforced"] = list(exchange.not_enforced)

    async def _of_tools(self, exchange: Exchange) -> dict[str, CompiledGrammar]:
        """What judges arguments while they stream; a schema that is not enforced here judges them at their end."""
        found: dict[str, CompiledGrammar] = {}
        _, constrainer = exchange.pinned.constrain
        for tool in exchange.request.callable_tools if exchange.request.stream else ():
            constraint = judged(Constraint("json_schema", tool.parameters))
            with contextlib.suppress(GrammarError):
                grammar = await constrainer.compile(constraint, exchange.served) if constraint is not None else None
                if isinstance(grammar, CompiledGrammar):
                    found[tool.name] = grammar
        return found

    async def generate(self, exchange: Exchange) -> None:
        exchange.supersede()
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
                sampling=_drawn(exchange),
                grammar=exchange.grammar,
                n=request.n,
                tenant=exchange.caller.tenant,
                priority=request.priority,
                deadline_s=request.deadline_s,
                version=exchange.served.version,
                explain=request.explain,
                traceparent=exchange.trace.traceparent,
                request=request,
                tool_grammars=exchange.tool_grammars,
            )
            queues = exchange.pinned.queues
            if exchange.awaited is None:  # not where an answer is generated once more
                queues.shed(generator, job.model, job.priority, job.tenant)
                exchange.awaited = queues.expect(job.model, job.priority, job.tenant)
            if exchange.ticket is None:
                exchange.ticket = await queues.take(job.model, job.priority)
            exchange.generation = await generator.generate(job)
            begin = getattr(exchange.generation, "begin", None)
            if begin is not None:
                await begin()
            note.outcome = "queued"

    async def moderate(self, exchange: Exchange) -> AsyncGenerator[Delta, None]:
        moderation = Moderation(exchange.rails, exchange.request, exchange.caller, limits_of(exchange), exchange.lead)
        exchange.moderation = moderation
        started = time.perf_counter()
        pieces = aiter(_pieces(exchange))
        try:
            async for piece in pieces:
                for delta in moderation.feed(piece):
                    exchange.released()
                    yield delta
                if moderation.finished:
                    break
        finally:
            if isinstance(pieces, AsyncGenerator):  # left to itself, the loop would make a task to close it
                await pieces.aclose()
            exchange.answers = moderation.answers()
            settle(exchange, moderation)
            self._spans.delivered(exchange, moderation.decisions(), started)

    async def remember(self, exchange: Exchange) -> None:
        if exchange.question is None or exchange.cached is not None:
            return
        answers = tuple(exchange.answers)
        whole = bool(answers) and all(a.finish_reason in WHOLE and a.refusal is None for a in answers)
        if exchange.seat is not None:
            exchange.seat.land(Made(answers, exchange.usage)) if whole else exchange.seat.release()
        for name, cache, recall in exchange.recalls if whole else ():
            await keep(name, cache, exchange.question, answers, recall, exchange.usage)

    async def record(self, exchange: Exchange) -> None:
        outcome = exchange.outcome()
        try:
            self._spans.finish(exchange)
        except Exception:  # a figure that no trace can say must not leave the request unsettled
            log.exception("request %s has no trace; it is recorded all the same", exchange.request.id)
        for name, recorder in exchange.pinned.record:
            try:
                await recorder.record(outcome)
            except (asyncio.CancelledError, GeneratorExit):
                raise
            except BaseException:  # SystemExit and the like would end the whole gateway
                log.exception("recorder %s failed; the request is unharmed", name)


def _of_free_text(constrainer: Constrainer) -> Constraint | None:
    """What the operator forbids wherever nothing else is asked for (a blocklist), if the stage has such a thing."""
    found = getattr(constrainer, "unconstrained", None)
    return found if isinstance(found, Constraint) else None


def _pieces(exchange: Exchange) -> AsyncIterable[Piece]:
    """What is generated, by region: an output that is not all answer is taken apart first."""
    assert exchange.generation is not None
    plain = exchange.shape.is_plain or exchange.cached is not None
    return exchange.generation if plain else _by_region(exchange, exchange.generation)


async def _by_region(exchange: Exchange, generation: Generation) -> AsyncIterator[Piece]:
    asked = exchange.request.sampling
    regions = [Regions(exchange.shape, logprobs=asked.logprobs is not None) for _ in range(exchange.request.n)]
    stops = [ContentStops(asked) for _ in range(exchange.request.n)] if asked.stop else None
    pieces = aiter(generation)
    try:
        async for piece in pieces:
            if piece.channel != "content":  # a generator that knows the channels by itself
                yield piece
                continue
            for part in regions[piece.index].feed(piece):
                if stops is None:
                    yield part
                    continue
                for left in stops[piece.index].feed(part):
                    yield left
            exchange.thought_tokens = sum(region.thought_tokens for region in regions)
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def _drawn(exchange: Exchange) -> Sampling:
    """How the engine draws. Stop strings are kept from it where the output is not all answer (`ContentStops`)."""
    asked = exchange.request.sampling
    return asked if exchange.shape.is_plain or not asked.stop else replace(asked, stop=())
