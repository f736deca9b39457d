"""The slots of a request's way, one function each, in the order in which `gateway.request.pipeline` calls them.

A request runs on the stages that were in place when it was opened, whatever is configured meanwhile. `recall` and
`remember` stand in `gateway.request.recall`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace
from functools import partial
from types import NoneType

from sluicegate.engine import FewSteps, LongRendering, knows_tools
from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.shape import Shape, shape_of
from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.prompts.lengths import check_sampling, size_of
from sluicegate.gateway.rails.judging import Judging
from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.gateway.rails.stage_calls import StageMisbehaved, answered, expect, is_ours
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.generators import generation_of
from sluicegate.gateway.request.grammars import compiled, grammars_of_tools
from sluicegate.gateway.request.guarding.holding import Holding
from sluicegate.gateway.request.guarding.joints import found_across, with_documents_apart, without_one
from sluicegate.gateway.request.guarding.screening import Screening
from sluicegate.gateway.request.guarding.selection import limits_of, settle_output_rails, settle_states
from sluicegate.gateway.request.output import Replay, parts_of, pieces_of
from sluicegate.gateway.request.retrieval import wants_documents
from sluicegate.gateway.request.state_scores import may_follow, may_join
from sluicegate.gateway.request.tracing.live import LiveRequests, add_delivery
from sluicegate.gateway.request.tracing.timing import TimedStage
from sluicegate.gateway.request.watching import settle_moderation
from sluicegate.gateway.upstream.model import judged
from sluicegate.plugins import (
    Assembler,
    Caller,
    CompiledGrammar,
    GenerationFailed,
    GrammarError,
    Job,
    Overloaded,
    PermissionDenied,
    Piece,
    Prompt,
    ReadingModel,
    Request,
    RequestError,
    Sampling,
    SluicegateError,
    ThreadedAssembler,
    offers,
    shows,
)

log = logging.getLogger("sluicegate.pipeline")
BATCH_PRIORITY = 10
"""Priority of a batch's lines: behind all interactive requests."""
REST_S = 1.0
"""Time in which a generation that was stopped brings the scores of what it had generated: a step or two."""
_OF_CALLERS: Mapping[str, tuple[type, ...]] = {
    "tenant": (str,),
    **dict.fromkeys(("key_id", "team"), (str, NoneType)),
    **dict.fromkeys(("scopes", "rails"), (frozenset, set)),
    **dict.fromkeys(("models", "tools", "mcp", "routes"), (frozenset, set, NoneType)),
}
"""Types of the fields of a caller. A string in place of a set would allow its parts."""
_USES = {
    "embed": "it makes embeddings",
    "score": "it reranks and scores",
    "judge": "it judges tokens of answers, for a rail token-guard",
}


async def admit(exchange: Exchange) -> None:
    for name, stage in exchange.stages.admit:
        with TimedStage(exchange, "admit", name) as note:
            if is_ours(stage):
                caller = await stage.admit(exchange.request, exchange.caller)
            else:
                caller = await answered(stage, partial(stage.admit, exchange.request, exchange.caller), "admit()")
                _check_caller(caller)
            note.outcome = caller.key_id or caller.tenant
            exchange.caller = caller


def _check_caller(caller: object) -> None:
    """Check what `admit()` answered: limits and permissions rest on it. Raises `StageMisbehaved`."""
    expect(caller, Caller, "admit()")
    for name, kinds in _OF_CALLERS.items():
        if not isinstance(found := getattr(caller, name), kinds):
            kind = type(found).__name__
            raise StageMisbehaved(f"admit() answered a Caller whose `{name}` is a {kind}; see the contract")


def check_tools(request: Request, caller: Caller) -> None:
    """Check that the key may use all tools of the request. Raises `PermissionDenied` that names the first one it may
    not use."""
    if caller.tools is None:
        return
    for tool in request.tools:
        if tool.name not in caller.tools:
            raise PermissionDenied(
                f"key {caller.key_id!r} may not use the tool {tool.name!r}; it may use: "
                f"{', '.join(sorted(caller.tools)) or 'none'}",
                param="tools",
                code="tool_not_allowed",
            )


async def expand(exchange: Exchange, *, retrieving: bool = False) -> None:
    """Refuse requests that no model here could read; then turn templates and documents into messages. `retrieving`:
    more documents may come, from `retrieve`."""
    stages, request = exchange.stages, exchange.request
    more = retrieving and wants_documents(exchange)
    if more:
        exchange.question = request.messages[-1].content
    check_sampling(request.sampling)
    if request.nbytes:  # of what is small, assembling finds it out soon enough
        stages.lengths.check(request.messages, stages.generate[1].models.values())
    if request.parts is not None:
        tenant, size = exchange.caller.tenant, request.nbytes
        work = partial(stages.prompts.expand, request, more=more)
        exchange.request = await stages.workers.run(tenant, size, work)


async def screen(exchange: Exchange, holding: Holding) -> None:
    """Run the input rails. Raises `ContentBlocked`, or `PendingReview` where a review is needed first."""
    asked_for, screening = exchange.request, Screening(exchange)
    for name, rail in exchange.stages.screen:
        rail_policy = exchange.safety.policy.rail_policy("screen", name)
        if rail_policy.mode != "off":
            with TimedStage(exchange, "screen", name) as note:
                await screening.ask(name, rail, rail_policy, note)
    asked = [(name, reason) for name, reason in screening.asked if name not in exchange.entry.approved]
    if asked:
        refused = screening.refusals[asked[0][0]]
        held = await holding.hold_request(exchange, asked_for, asked, refused.param or "messages")
        raise refused if held is None else held


async def route(exchange: Exchange) -> None:
    exchange.screened = exchange.request
    name, router = exchange.stages.route
    models = exchange.stages.generate[1].models
    with TimedStage(exchange, "route", name) as note:
        chosen = await router.route(exchange.request, exchange.caller, models)
        exchange.model = models[chosen]
        exchange.draw = exchange.stages.drawn(exchange.request.id)
        note.outcome = chosen


async def arrange(exchange: Exchange, *, screened: bool = True) -> None:
    """Fit the documents of the request to the routed model. With `screened`, rails look for what documents make
    together where they now stand below each other. Raises `ContentBlocked`."""
    if exchange.request.parts is None:
        return
    exchange.unarranged = exchange.unarranged or exchange.request
    run = partial(exchange.stages.workers.run, exchange.caller.tenant)
    while True:
        made = await exchange.stages.prompts.arrange(exchange.unarranged, exchange.served, run)
        across = found_across(exchange, made.pieces) if screened else None
        if across is None:
            break
        exchange.unarranged = without_one(exchange, exchange.unarranged, across)
    exchange.request = made.request


async def assemble(exchange: Exchange) -> None:
    name, assembler = exchange.stages.assemble
    if shows(served := exchange.served, ReadingModel):
        use = _USES[served.reads_for]
        raise RequestError(
            f"model {exchange.served.name!r} reads texts and writes none: {use}",
            param="model",
            code="unsupported_model",
        )
    with TimedStage(exchange, "assemble", name) as note:
        prompt = await _assembled(exchange, assembler)
        expect(prompt, Prompt, "assemble()")
        exchange.attempt.prompt = prompt
        note.outcome = f"{len(prompt.token_ids)} tokens"
    if served.remote:
        exchange.attempt.shape = Shape(judged(exchange.request.constraint))
    else:
        knows_marks = knows_tools(getattr(served.tokenizer, "chat_template", None))
        exchange.attempt.shape = shape_of(exchange.request, prompt, knows_marks=knows_marks)


async def _assembled(exchange: Exchange, assembler: Assembler) -> Prompt:
    """Assemble the prompt. A stage that has `assembled` renders and tokenises large requests in a thread."""
    request, model = exchange.request, exchange.served
    if not offers(assembler, ThreadedAssembler):
        return await answered(assembler, partial(assembler.assemble, request, model), "assemble()")
    workers = exchange.stages.workers
    work = partial(workers.run, exchange.caller.tenant, size_of(request), assembler.assembled, request, model)
    try:
        with FewSteps():  # a template may loop over little for very long
            return await answered(assembler, work, "assembled()")
    except LongRendering:
        return await answered(assembler, partial(work, inline_bytes=-1), "assembled()")


async def constrain(exchange: Exchange, validator: Validator) -> None:
    attempt = exchange.attempt
    if exchange.served.remote and exchange.request.callable_tools and attempt.cached is None:
        validator.prepare(exchange.request)
        attempt.tool_grammars = await grammars_of_tools(exchange)
    name, constrainer = exchange.stages.constrain
    constraint = attempt.shape.constraint or constrainer.unconstrained
    if constraint is None or attempt.cached is not None:
        return
    with TimedStage(exchange, "constrain", name) as note:
        try:
            attempt.grammar = await compiled(exchange, constraint)
        except GrammarError as error:
            raise attempt.shape.in_callers_words(error, exchange.request) from error
        expect(attempt.grammar, CompiledGrammar, "compile()")  # None would mean that everything is allowed
        validator.prepare(exchange.request)
        note.outcome = constraint.kind
        if exchange.not_enforced:
            note.detail["not_enforced"] = list(exchange.not_enforced)


def shed(exchange: Exchange) -> None:
    """Refuse a request whose first text would come too late, before its schema is compiled: raises `Overloaded`. Else
    register its wait. Skipped for kept answers and repeated generations."""
    attempt, request, tenant = exchange.attempt, exchange.request, exchange.caller.tenant
    (name, generator), queues = exchange.stages.generate, exchange.stages.queues
    if attempt.cached is not None:
        queues.served_kept(tenant)
        return
    if attempt.awaited is not None:
        return
    model = exchange.served.name
    try:
        queues.shed(generator, model, request.priority, tenant, exchange.entry.waited_s)
    except Overloaded:
        with TimedStage(exchange, "generate", name):
            raise
    attempt.awaited = queues.expect(model, request.priority, tenant)


async def generate(exchange: Exchange) -> None:
    """Wait for a turn at the model and begin. Raises `Overloaded`, and what the generator raises."""
    exchange.supersede()
    attempt = exchange.attempt
    if attempt.cached is not None:
        attempt.generation = Replay(attempt.cached)
        return
    name, generator = exchange.stages.generate
    settle_states(exchange)
    with TimedStage(exchange, "generate", name) as note:
        job, queues = _job(exchange), exchange.stages.queues
        if attempt.ticket is None:
            attempt.ticket = await queues.take(job.model, job.priority)
        attempt.generation = await generation_of(name, generator, job)
        await attempt.generation.begin()
        note.outcome = "queued"


def _job(exchange: Exchange) -> Job:
    request, attempt = exchange.request, exchange.attempt
    assert attempt.prompt is not None
    return Job(
        request_id=request.id,
        model=exchange.served.name,
        prompt=attempt.prompt,
        sampling=_drawn(exchange),
        grammar=attempt.grammar,
        n=request.n,
        tenant=exchange.caller.tenant,
        priority=request.priority,
        deadline_s=_deadline_s(exchange),
        version=exchange.served.version,
        explain=request.explain or request.confidence,
        probed=bool(exchange.safety.state_rails),
        by_sentence=may_join(exchange),
        scores_behind=may_follow(exchange),
        traceparent=exchange.entry.trace.traceparent,
        request=request,
        tool_grammars=attempt.tool_grammars,
    )


def _deadline_s(exchange: Exchange) -> float | None:
    """Return the deadline that the request names, else the operator's. A line of a batch may wait for as long as it
    takes."""
    request = exchange.request
    if request.deadline_s is not None or request.priority >= BATCH_PRIORITY:
        return request.deadline_s
    return exchange.stages.deadline_s


def _drawn(exchange: Exchange) -> Sampling:
    """Return how the engine draws. Stop strings are kept from it where the output is not all answer
    (`ContentStops`)."""
    asked = exchange.request.sampling
    return asked if exchange.attempt.shape.is_plain or not asked.stop else replace(asked, stop=())


async def moderate(exchange: Exchange, validator: Validator) -> AsyncGenerator[Delta, None]:
    """Yield what the output rails release as the generation goes on. Its answers and decisions are kept at the end.
    `validator` judges calls that the model wrote without their marks."""
    limits, lead = limits_of(exchange), exchange.entry.lead
    rails, request, caller = exchange.safety.output_rails, with_documents_apart(exchange), exchange.caller
    moderation = Moderation(rails, request, caller, limits, lead)
    exchange.moderation = moderation
    judging = Judging(rails, request, caller, limits, lead) if moderation.is_judged else None
    started, some_ended, is_whole = time.perf_counter(), False, False
    pieces = aiter(pieces_of(exchange, validator))
    try:
        async for whole in pieces:
            for piece in parts_of(whole):
                if judging is None or judging.reads_beside(piece):
                    deltas = [] if _brings_only_scores(piece) else moderation.feed(piece)
                else:
                    deltas = await _judged(judging, moderation, piece)
                for delta in deltas:
                    if delta.finish_reason is not None:
                        some_ended = True
                        # Dialects have no word for it: it would look like a whole answer.
                        if delta.finish_reason == "error":
                            message = "the model's generation ended in an error before the answer was whole"
                            raise GenerationFailed(message)
                    exchange.released()
                    yield delta
                if piece is not whole:
                    await asyncio.sleep(0)  # other requests go on in between
            if judging is not None and judging.failure is not None:
                raise judging.failure
            if some_ended and moderation.finished:
                break
        if judging is not None and judging.show_all():
            await _add_rest(exchange, judging, pieces)
        is_whole = True
    finally:
        close = getattr(pieces, "aclose", None)
        if close is not None:  # of a generator: left to itself, the loop would make a task to close it
            await close()
        exchange.answers = moderation.answers()
        settle_output_rails(exchange, moderation, in_shadow=False)
        add_delivery(exchange, started)
        if is_whole and judging is not None and judging.is_watched:
            exchange.watched.append((moderation, judging, started))
        else:
            settle_moderation(exchange, moderation, judging, started)


def _brings_only_scores(piece: Piece) -> bool:
    return piece.behind and not piece.text and piece.finish_reason is None


async def _judged(judging: Judging, moderation: Moderation, piece: Piece) -> list[Delta]:
    """Return the deltas that may leave after the judges have read `piece`."""
    deltas: list[Delta] = []
    for step in await judging.feed(piece):
        deltas += moderation.feed(step) if isinstance(step, Piece) else moderation.apply_verdict(step)
    moderation.waits(piece.index, judging.held(piece.index))
    return deltas


async def _add_rest(exchange: Exchange, judging: Judging, pieces: AsyncIterator[Piece]) -> None:
    """Cancel a generation that another rail stopped, and give the judges in shadow mode the scores of the text that
    they have. Without these, which an engine that hangs does not bring, they judge what is scored."""
    assert exchange.attempt.generation is not None
    exchange.attempt.generation.cancel()
    with contextlib.suppress(TimeoutError, SluicegateError):
        async with asyncio.timeout(REST_S):
            async for piece in pieces:
                judging.add_scores(piece)


async def record(exchange: Exchange, live: LiveRequests) -> None:
    """Report the exchange to the trace sink and every recorder; failures are logged."""
    outcome = exchange.outcome()
    try:
        live.finish(exchange)
    except Exception:  # a figure that no trace can say must not leave the request unsettled
        log.exception("request %s has no trace; it is recorded all the same", exchange.request.id)
    for name, recorder in exchange.stages.record:
        try:
            await answered(recorder, partial(recorder.record, outcome), "record()")
        except Exception:
            log.exception("recorder %s failed; the request is unharmed", name)
