"""The pieces of an output: generated and split by region where not all of it is the answer, or played back."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Sequence
from dataclasses import replace
from functools import partial

from sluicegate.gateway.answer.content_stops import ContentStops
from sluicegate.gateway.answer.regions import Regions
from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.answer.written_calls import CallJudge
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.state_scores import may_follow
from sluicegate.plugins import Answer, Generation, Piece, Request, Timeline, Usage

LONG = 1024
"""Characters of a piece that rails read at once: some milliseconds, where each number of a JSON text is a text of its
own."""


def pieces_of(exchange: Exchange, validator: Validator) -> AsyncIterable[Piece]:
    attempt = exchange.attempt
    assert attempt.generation is not None
    plain = attempt.shape.is_plain or attempt.cached is not None
    return attempt.generation if plain else _by_region(exchange, attempt.generation, validator)


def _call_judge(request: Request, validator: Validator) -> CallJudge:
    """Return what calls without marks may be: not of a tool whose text follows a grammar, which only masks ensure."""
    names = tuple(tool.name for tool in request.callable_tools if tool.form is None)
    return CallJudge(names, lambda call: validator.allows_call(request, call))


async def _by_region(exchange: Exchange, generation: Generation, validator: Validator) -> AsyncIterator[Piece]:
    asked, shape = exchange.request.sampling, exchange.attempt.shape
    behind, logprobs = may_follow(exchange), asked.logprobs is not None
    judge = _call_judge(exchange.request, validator) if shape.reads_plain_calls else None
    make = partial(Regions, shape, logprobs=logprobs, scores_behind=behind, judge=judge)
    regions = [make() for _ in range(exchange.request.n)]
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


def parts_of(piece: Piece) -> Sequence[Piece]:
    """Cut a long piece into parts of `LONG` characters, of which the last says what the piece says beside its text.
    One with log probabilities or probes' scores stays whole: they belong to all of it."""
    if len(piece.text) <= LONG or piece.logprobs or piece.probed:
        return (piece,)
    last = (len(piece.text) - 1) // LONG * LONG
    bare = replace(piece, token_ids=(), finish_reason=None, closed="", ends=False, stopped_by="")
    parts = [replace(bare, text=piece.text[at : at + LONG]) for at in range(0, last, LONG)]
    return (*parts, replace(piece, text=piece.text[last:]))


class Replay:
    """A `Generation` that yields answers of the cache whole, one piece a choice, and costs no tokens."""

    def __init__(self, answers: tuple[Answer, ...]) -> None:
        self._answers = answers
        self.timeline: Timeline | None = None

    async def begin(self) -> None:
        """Do nothing: there is nothing to wait for."""

    async def __aiter__(self) -> AsyncIterator[Piece]:
        for answer in self._answers:
            for piece in _pieces_of_answer(answer):
                yield piece

    def cancel(self) -> None:
        """Do nothing: nothing runs."""

    @property
    def usage(self) -> Usage:
        return Usage()


def _pieces_of_answer(answer: Answer) -> Iterator[Piece]:
    """Yield the texts of an answer, each whole, in the order in which a model writes them; the last ends the choice."""
    parts: list[Piece] = []
    if answer.reasoning:
        parts.append(Piece(answer.index, answer.reasoning, channel="reasoning", ends=True))
    if answer.text or not answer.tool_calls:
        parts.append(Piece(answer.index, answer.text, logprobs=answer.logprobs, ends=True))
    for number, call in enumerate(answer.tool_calls):
        parts.append(
            Piece(answer.index, call.arguments, channel="tool_arguments", call=number, tool=call.name, ends=True)
        )
    yield from parts[:-1]
    yield replace(parts[-1], finish_reason=answer.finish_reason, closed=answer.closed, stopped_by=answer.stopped_by)
