"""Pseudonyms back to what they stand for, on the last stretch: behind rails, validator, cache and records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from gateway.exchange import Delta, Exchange
from plugins import Answer, Channel
from safety import Restorer, restored


class Restoring:
    """The deltas of one stream."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._at_work: dict[int, tuple[Channel, int, Restorer]] = {}

    def feed(self, delta: Delta) -> Iterator[Delta]:
        """A choice that turns to another channel, or ends, first says what was held of the one before."""
        channel, call, restorer = self._at_work.get(delta.index, (delta.channel, delta.call, None))
        if restorer is not None and (channel, call) != (delta.channel, delta.call):
            rest, restorer = restorer.close(), None
            if rest:
                yield Delta(delta.index, rest, channel=channel, call=call)
        if restorer is None:
            restorer = Restorer(self._exchange.restore, in_json=_in_json(self._exchange, delta.channel))
            self._at_work[delta.index] = (delta.channel, delta.call, restorer)
        text = restorer.feed(delta.text)
        if delta.finish_reason is not None:
            text += restorer.close()
        if text or delta.finish_reason or delta.opened or delta.logprobs:
            yield dataclasses.replace(delta, text=text)


def with_values(exchange: Exchange, answer: Answer) -> Answer:
    """The answer for a caller who may see the values."""
    values = exchange.restore
    return dataclasses.replace(
        answer,
        text=restored(answer.text, values, in_json=_in_json(exchange, "content")),
        reasoning=restored(answer.reasoning, values),
        tool_calls=tuple(
            dataclasses.replace(call, arguments=restored(call.arguments, values, in_json=True))
            for call in answer.tool_calls
        ),
    )


def _in_json(exchange: Exchange, channel: Channel) -> bool:
    constraint = exchange.request.constraint
    kind = constraint.kind if constraint is not None and channel == "content" else ""
    return channel == "tool_arguments" or kind.startswith("json")
