"""Replace pseudonyms by the original values, last of all: after rails, validator, cache and records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.validation import Validator
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Answer, Channel
from sluicegate.safety import Restorer, restored


class Restoring:
    """Restores the deltas of one stream, each text by itself, however often others come between."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._at_work: dict[int, dict[tuple[Channel, int], Restorer]] = {}

    def feed(self, delta: Delta) -> Iterator[Delta]:
        """Yield what may leave; a choice that ends first releases what was held of its other texts."""
        texts = self._at_work.setdefault(delta.index, {})
        here = delta.channel, delta.call
        if here not in texts:
            texts[here] = Restorer(self._exchange.safety.restore, in_json=_in_json(self._exchange, delta.channel))
        text = texts[here].feed(delta.text)
        if delta.finish_reason is not None:
            text += texts.pop(here).close()
            for (channel, call), restorer in texts.items():
                if rest := restorer.close():
                    yield Delta(delta.index, rest, channel=channel, call=call)
        if text or delta.finish_reason or delta.opened or delta.logprobs:
            refusal = delta.refusal and restored(delta.refusal, self._exchange.safety.restore)
            yield dataclasses.replace(delta, text=text, refusal=refusal)


def restored_answer(exchange: Exchange, answer: Answer, validator: Validator) -> Answer:
    """Return the answer as the caller may see it, with the original values in place of pseudonyms. Where those values
    would break the schema, return it as the model wrote it."""
    shown = with_values(exchange, answer)
    if validator.complaint_of_whole(exchange.request, shown) is None:
        return shown
    note = f"pseudonyms: choice {answer.index} is not restored, the values break its schema"
    exchange.safety.unenforced.append(note)
    return answer


def with_values(exchange: Exchange, answer: Answer) -> Answer:
    """Return the answer with the values in place of their pseudonyms."""
    values = exchange.safety.restore
    return dataclasses.replace(
        answer,
        text=restored(answer.text, values, in_json=_in_json(exchange, "content")),
        reasoning=restored(answer.reasoning, values),
        refusal=answer.refusal and restored(answer.refusal, values),
        tool_calls=tuple(
            dataclasses.replace(call, arguments=restored(call.arguments, values, in_json=True))
            for call in answer.tool_calls
        ),
    )


def _in_json(exchange: Exchange, channel: Channel) -> bool:
    constraint = exchange.request.constraint
    kind = constraint.kind if constraint is not None and channel == "content" else ""
    return channel == "tool_arguments" or kind.startswith("json")
