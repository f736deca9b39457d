"""Attempts at an answer: with a fallback model where one fails, and again where an answer may not leave."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence

from sluicegate.gateway.answer.shape import shape_of
from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.rails.moderation import REFUSAL
from sluicegate.gateway.request import slots
from sluicegate.gateway.request.context import Attempt, Exchange
from sluicegate.gateway.request.invalid_answers import InvalidAnswers
from sluicegate.gateway.request.recall import recall
from sluicegate.plugins import (
    Answer,
    GenerationFailed,
    Overloaded,
    Request,
    RequestError,
    ServiceError,
    UpstreamFailed,
)

log = logging.getLogger("sluicegate.pipeline")
ELSEWHERE = (Overloaded, GenerationFailed, UpstreamFailed)
"""Errors after which another model may answer."""
MAX_ATTEMPTS = 3
"""Generations tried for one non-streamed structured answer before giving up; more than one is already a bug."""
SHORTEST = 3
"""Fewest characters of a forbidden text; a shorter one would forbid half of all words."""


class Attempts:
    def __init__(self, validator: Validator, breaches: InvalidAnswers) -> None:
        self.begun: Callable[[Exchange], None] = lambda exchange: None
        """Called with each request whose generation has begun."""
        self._validator = validator
        self._breaches = breaches

    async def begin(self, exchange: Exchange) -> None:
        """Prepare a running generation, with a fallback model where the first one fails."""
        while True:
            try:
                await self.prepare(exchange)
                break
            except ELSEWHERE as error:
                _turn_elsewhere(exchange, error)
        self.begun(exchange)

    async def prepare(self, exchange: Exchange) -> None:
        """Run the slots that lead from the routed model to a running generation."""
        await slots.arrange(exchange)
        await slots.assemble(exchange)
        await recall(exchange, self._validator)
        await self._generate(exchange)

    async def collect(self, exchange: Exchange) -> None:
        """Collect complete, valid answers. Nothing has left yet, so a fallback model may answer where this one
        fails."""
        while True:
            try:
                return await self.collect_valid(exchange)
            except ELSEWHERE as error:
                _turn_elsewhere(exchange, error)
                await self.begin(exchange)

    async def collect_valid(self, exchange: Exchange) -> None:
        """Collect answers that satisfy their schema, generating again where one does not. Raises `GenerationFailed` or
        `UpstreamFailed` where no valid answer came."""
        refused: list[Answer] = []
        for _ in range(MAX_ATTEMPTS):
            try:
                async for _delta in slots.moderate(exchange, self._validator):
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
            message = "no valid structured answer could be generated; this is a bug of the gateway"
            raise self._breaches.error(exchange, message)
        exchange.answers = refused

    async def _generate(self, exchange: Exchange) -> None:
        slots.shed(exchange)
        await slots.constrain(exchange, self._validator)
        await slots.generate(exchange)

    async def _avoids(self, exchange: Exchange) -> bool:
        """Generate again under a grammar that excludes the refused texts. Return False where there is no such text, or
        no such grammar: the answer then stays refused."""
        texts = exchange.moderation.irreplaceable if exchange.moderation is not None else ()
        tighter = None if exchange.served.remote else _without(exchange.request, texts)
        attempt = exchange.attempt
        if tighter is None or attempt.cached is not None or attempt.prompt is None:
            return False
        asked, grammar = exchange.request, attempt.grammar
        try:
            exchange.request, attempt.shape = tighter, shape_of(tighter, attempt.prompt)
            await self._generate(exchange)
        except RequestError:  # nothing else can stand there, or the grammar cannot forbid it
            exchange.request, attempt.grammar = asked, grammar
            return False
        log.info("request %s: a value could not be redacted where it stood; generating without it", asked.id)
        return True

    async def _regenerate(self, exchange: Exchange, complaint: str) -> None:
        self._breaches.note(exchange, complaint, "generated again")
        seed = (exchange.request.sampling.seed or 0) + 1
        sampling = dataclasses.replace(exchange.request.sampling, seed=seed, temperature=1.0)
        exchange.request = dataclasses.replace(exchange.request, sampling=sampling)
        exchange.attempt.cached = None
        await self._generate(exchange)


def _turn_elsewhere(exchange: Exchange, error: ServiceError) -> None:
    """Give up the attempt and select the next model. Raises `error` again where there is none."""
    exchange.failed.append(exchange.served.name)
    stages = exchange.stages
    models = stages.generate[1].models
    found = stages.instead(exchange.failed, exchange.failed[0], exchange.request, exchange.caller, models)
    if found is None:
        raise error
    log.warning("request %s: %s instead of %s (%s)", exchange.request.id, found, exchange.failed[-1], error.code)
    exchange.attempt.give_up()
    exchange.supersede()
    exchange.attempt = Attempt()
    exchange.model = models[found]


def _without(request: Request, texts: Sequence[str]) -> Request | None:
    """Return `request` with `texts` added to the blocklist of its grammar. Return None where that would change
    nothing."""
    constraint = request.constraint
    if constraint is None:
        return None
    listed = [str(text) for text in constraint.options.get("blocklist", ())]
    fresh = [text for text in dict.fromkeys(texts) if len(text.strip()) >= SHORTEST and text not in listed]
    if not fresh:
        return None
    options = {**constraint.options, "blocklist": [*listed, *fresh]}
    return dataclasses.replace(request, constraint=dataclasses.replace(constraint, options=options))


def _refused(answer: Answer) -> Answer:
    """Return `answer` refused as a whole, because a redaction in it breaks the schema."""
    return dataclasses.replace(answer, finish_reason="content_filter", refusal=REFUSAL, logprobs=(), tool_calls=())
