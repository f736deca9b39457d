"""Write answers as messages: whole, and as the events of a stream."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from sluicegate.gateway.answer.custom_text import TextDecoder, text_of
from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.partial import PartialValues
from sluicegate.gateway.api.body.parsing import Parsed
from sluicegate.gateway.api.dialects.chat_answer import answered_content, answered_logprobs
from sluicegate.gateway.api.extras import delta_notes, extension, finite, late_notes
from sluicegate.gateway.grpc import messages
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Answer, SluicegateError, TokenLogprob, exact_json


def whole(exchange: Exchange, parsed: Parsed) -> bytes:
    """Write a `GenerateResponse`."""
    return messages.GenerateResponse(
        **_envelope(exchange),
        choices=[_choice(answer, exchange) for answer in exchange.answers],
        usage=_usage(exchange),
        sluicegate_json=_text(extension(exchange, explain=parsed.explain)),
    ).SerializeToString()


def embeddings(exchange: Exchange, rows: npt.NDArray[np.float32], notes: dict[str, Any]) -> bytes:
    """Write an `EmbedResponse`. `rows`: float32 [n, d]."""
    return messages.EmbedResponse(
        model=exchange.served.name,
        data=[messages.Embedding(values=row.tolist()) for row in rows],
        usage=messages.Usage(prompt_tokens=exchange.usage.prompt_tokens),
        sluicegate_json=_text(notes),
    ).SerializeToString()


class EventWriter:
    """Writes the events of one stream, each a `StreamEvent`."""

    def __init__(self, exchange: Exchange, parsed: Parsed) -> None:
        self._exchange = exchange
        self._explain = parsed.explain
        self._reported: tuple[str, ...] = ()
        self._custom = exchange.request.custom_tools
        self._texts: dict[tuple[int, int], TextDecoder] = {}
        """Texts of custom tools' calls, by choice and number."""
        self._partial = PartialValues(exchange.request) if exchange.request.partial else None

    def opening(self) -> bytes:
        self._reported = self._exchange.not_enforced
        notes = extension(self._exchange, explain=False)
        opening = messages.Opening(**_envelope(self._exchange), sluicegate_json=_text(notes))
        return messages.StreamEvent(opening=opening).SerializeToString()

    def delta(self, delta: Delta) -> bytes:
        event = messages.StreamEvent()
        said = event.deltas.add()
        said.index = delta.index
        if delta.channel == "content":
            said.content = delta.text
        elif delta.channel == "reasoning":
            said.reasoning = delta.text
        else:
            self._write_call(said.call, delta)
        if delta.refusal is not None:
            said.refusal = delta.refusal
        if delta.finish_reason is not None:
            said.finish_reason = delta.finish_reason
        if delta.logprobs:
            said.logprobs.extend(_logprobs(delta.logprobs))
        if notes := delta_notes(self._exchange, self._partial, delta):
            said.sluicegate_json = _text(notes)
        return event.SerializeToString()

    def closing(self) -> bytes:
        late = late_notes(self._exchange, self._reported, explain=self._explain)
        closing = messages.Closing(usage=_usage(self._exchange), sluicegate_json=_text(late))
        return messages.StreamEvent(closing=closing).SerializeToString()

    def failing(self, error: SluicegateError) -> NoReturn:
        """Raise the error: in gRPC it is no event, but ends the call with a status."""
        raise error

    def _write_call(self, said: messages.CallDelta, delta: Delta) -> None:
        place = delta.index, delta.call
        said.index = delta.call
        if delta.opened is not None:
            said.id, said.name = delta.opened.id, delta.opened.name
            if delta.opened.name in self._custom:
                self._texts[place] = TextDecoder()
        elif (decoder := self._texts.get(place)) is not None:
            said.input = decoder.feed(delta.text)
        else:
            said.arguments = delta.text


def _envelope(exchange: Exchange) -> dict[str, Any]:
    return {
        "id": exchange.request.id,
        "created": exchange.entry.created_s,
        "model": exchange.served.name,
        "system_fingerprint": f"fp_{exchange.served.version[:12]}",
    }


def _choice(answer: Answer, exchange: Exchange) -> messages.Choice:
    calls = answer.tool_calls if answer.finish_reason != "content_filter" and answer.refusal is None else ()
    custom = exchange.request.custom_tools
    return messages.Choice(
        index=answer.index,
        content=answered_content(answer, exchange),
        refusal=answer.refusal,
        reasoning=answer.reasoning,
        tool_calls=[
            messages.ToolCall(id=call.id, name=call.name, input=text_of(call.arguments))
            if call.name in custom
            else messages.ToolCall(id=call.id, name=call.name, arguments=call.arguments)
            for call in calls
        ],
        finish_reason=answer.finish_reason,
        logprobs=_logprobs(answered_logprobs(answer, exchange)),
    )


def _logprobs(entries: Iterable[TokenLogprob]) -> list[messages.TokenLogprob]:
    return [
        messages.TokenLogprob(
            token=entry.token,
            data=bytes(entry.data),
            logprob=finite(entry.logprob),
            top=[
                messages.TokenLogprob(token=token, data=bytes(data), logprob=finite(logprob))
                for _, token, data, logprob in entry.top
            ],
        )
        for entry in entries
    ]


def _usage(exchange: Exchange) -> messages.Usage:
    counted = exchange.reported_usage
    return messages.Usage(
        prompt_tokens=counted.prompt_tokens,
        completion_tokens=counted.completion_tokens,
        cached_tokens=counted.cached_tokens,
        reasoning_tokens=exchange.thought_tokens if exchange.request.reasoning else 0,
    )


def _text(notes: dict[str, Any]) -> str:
    return exact_json.write(notes).decode() if notes else ""
