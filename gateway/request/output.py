"""What is generated, by region: an output that is not all answer is taken apart before the rails read it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator

from sluicegate.gateway.answer.content_stops import ContentStops
from sluicegate.gateway.answer.regions import Regions
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Generation, Piece


def pieces_of(exchange: Exchange) -> AsyncIterable[Piece]:
    attempt = exchange.attempt
    assert attempt.generation is not None
    plain = attempt.shape.is_plain or attempt.cached is not None
    return attempt.generation if plain else _by_region(exchange, attempt.generation)


async def _by_region(exchange: Exchange, generation: Generation) -> AsyncIterator[Piece]:
    asked, shape = exchange.request.sampling, exchange.attempt.shape
    regions = [Regions(shape, logprobs=asked.logprobs is not None) for _ in range(exchange.request.n)]
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
