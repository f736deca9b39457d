"""Write answers of `/v1/responses`: a response with its output items, and the events of a stream."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from sluicegate.gateway.answer.custom_text import TextDecoder, text_of
from sluicegate.gateway.api.dialects.blocks import Block, BlockWriter, event
from sluicegate.gateway.api.dialects.responses_request import ParsedResponse
from sluicegate.gateway.api.extras import extended, token_logprobs
from sluicegate.gateway.http.errors import error_detail
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Answer, SluicegateError, TokenLogprob, exact_json

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}


def response(exchange: Exchange, parsed: ParsedResponse) -> bytes:
    """Write the body of a non-streamed answer."""
    [answer] = exchange.answers
    items = [_item(exchange, block, done=True) for block in _blocks(answer, exchange)]
    return exact_json.write(_response(exchange, parsed.echo, items, answer, explain=parsed.explain))


def _blocks(answer: Answer, exchange: Exchange) -> Iterator[Block]:
    """Yield blocks in the order in which they were written, without a structured answer that a rail stopped."""
    stopped = answer.finish_reason == "content_filter" or answer.refusal is not None
    cut = answer.finish_reason == "length"
    found: list[Block] = []
    if answer.reasoning:
        found.append(Block("reasoning", 0, parts=[answer.reasoning]))
    if answer.text and not (stopped and exchange.request.constraint is not None):
        found.append(Block("content", 0, parts=[answer.text], logprobs=list(answer.logprobs), whole=not stopped))
    found += [Block("tool_arguments", 0, call, [call.arguments]) for call in (() if stopped else answer.tool_calls)]
    if answer.refusal is not None:
        found.append(Block("refusal", 0, parts=[answer.refusal]))
    if cut and found:
        found[-1].whole = False
    for number, block in enumerate(found):
        block.number = number
        yield block


class ResponseWriter(BlockWriter):
    """Numbered events of one stream. What a client needs to begin an item comes before its first text."""

    def __init__(self, exchange: Exchange, parsed: ParsedResponse) -> None:
        super().__init__(exchange)
        self._echo = parsed.echo
        self._explain = parsed.explain
        self._sent = -1
        self._texts: dict[int, TextDecoder] = {}
        """By number of the block: calls of custom tools."""

    def opening(self) -> bytes:
        begun = _response(self._exchange, self._echo, [], None, explain=False)
        return self._event("response.created", response=begun) + self._event("response.in_progress", response=begun)

    def closing(self) -> bytes:
        answer = self._exchange.answers[0]
        items = [_item(self._exchange, block, done=True) for block in self.blocks]
        ended = _response(self._exchange, self._echo, items, answer, explain=self._explain)
        return self._event(f"response.{ended['status']}", response=ended)

    def failing(self, error: SluicegateError) -> bytes:
        """Write the event of a failure. It has a field `error` because OpenAI's clients raise what has one."""
        detail = error_detail(error)
        fields = {name: detail[name] for name in ("code", "message", "param")}
        return self._event("error", **fields, error=detail)

    def _told(self, complete: dict[str, Any]) -> bytes:
        return self._event("sluicegate.partial", **complete)

    def _opened(self, block: Block) -> bytes:
        item = _item(self._exchange, block, done=False)
        added = self._event("response.output_item.added", output_index=block.number, item=item)
        if block.kind == "tool_arguments":
            return added
        return added + self._event("response.content_part.added", **self._at(block), part=_part(block, ""))

    def _grown(self, block: Block, text: str, logprobs: tuple[TokenLogprob, ...]) -> bytes:
        if _is_custom(self._exchange, block):
            more_text = self._texts.setdefault(block.number, TextDecoder()).feed(text)
            kind = "response.custom_tool_call_input.delta"
            return self._event(kind, **self._at(block), delta=more_text) if more_text else b""
        if block.kind == "tool_arguments":
            return self._event("response.function_call_arguments.delta", **self._at(block), delta=text)
        more = {"logprobs": token_logprobs(logprobs)} if block.kind == "content" else {}
        return self._event(f"response.{_PART[block.kind]}.delta", **self._at(block), delta=text, **more)

    def _closed(self, block: Block) -> bytes:
        ended = self._call_ended(block) if block.kind == "tool_arguments" else self._part_ended(block)
        item = _item(self._exchange, block, done=True)
        return ended + self._event("response.output_item.done", output_index=block.number, item=item)

    def _call_ended(self, block: Block) -> bytes:
        if _is_custom(self._exchange, block):
            kind = "response.custom_tool_call_input.done"
            return self._event(kind, **self._at(block), input=text_of(block.text))
        name = block.call.name if block.call else ""
        kind = "response.function_call_arguments.done"
        return self._event(kind, **self._at(block), name=name, arguments=block.text)

    def _part_ended(self, block: Block) -> bytes:
        """Write the ends of a text and of its part. A text under a constraint that was stopped before its end gets none
        of its own: OpenAI's client reads the text of that event as JSON."""
        is_cut = block.kind == "content" and not block.whole and self._exchange.request.constraint is not None
        ended = b"" if is_cut else self._text_ended(block)
        return ended + self._event("response.content_part.done", **self._at(block), part=_part(block, block.text))

    def _text_ended(self, block: Block) -> bytes:
        more = {"logprobs": token_logprobs(block.logprobs)} if block.kind == "content" else {}
        said = {"refusal" if block.kind == "refusal" else "text": block.text}
        return self._event(f"response.{_PART[block.kind]}.done", **self._at(block), **said, **more)

    def _at(self, block: Block) -> dict[str, Any]:
        place: dict[str, Any] = {"item_id": _id(self._exchange, block), "output_index": block.number}
        return place if block.kind == "tool_arguments" else {**place, "content_index": 0}

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        self._sent += 1
        return event(kind, {**fields, "sequence_number": self._sent})


_PART = {"content": "output_text", "reasoning": "reasoning_text", "refusal": "refusal"}
_PREFIX = {"content": "msg", "refusal": "msg", "reasoning": "rs", "tool_arguments": "fc"}


def _is_custom(exchange: Exchange, block: Block) -> bool:
    return block.call is not None and block.call.name in exchange.request.custom_tools


def _id(exchange: Exchange, block: Block) -> str:
    prefix = "ctc" if _is_custom(exchange, block) else _PREFIX[block.kind]
    return f"{prefix}_{exchange.request.id.removeprefix('resp_')}{block.number}"


def _item(exchange: Exchange, block: Block, *, done: bool) -> dict[str, Any]:
    status = ("completed" if block.whole else "incomplete") if done else "in_progress"
    item: dict[str, Any] = {"id": _id(exchange, block), "status": status}
    if block.kind == "tool_arguments":
        assert block.call is not None
        named = {"call_id": block.call.id, "name": block.call.name}
        if _is_custom(exchange, block):
            return {**item, "type": "custom_tool_call", **named, "input": text_of(block.text) if done else ""}
        return {**item, "type": "function_call", **named, "arguments": block.text if done else ""}
    content = [_part(block, block.text)] if done else []
    if block.kind == "reasoning":
        return {**item, "type": "reasoning", "summary": [], "content": content}
    return {**item, "type": "message", "role": "assistant", "content": content}


def _part(block: Block, text: str) -> dict[str, Any]:
    kind = _PART[block.kind]
    if kind == "refusal":
        return {"type": kind, "refusal": text}
    if kind == "reasoning_text":
        return {"type": kind, "text": text}
    return {"type": kind, "text": text, "annotations": [], "logprobs": token_logprobs(block.logprobs)}


def _response(
    exchange: Exchange, echo: Mapping[str, Any], items: list[dict[str, Any]], answer: Answer | None, *, explain: bool
) -> dict[str, Any]:
    reason = INCOMPLETE.get(answer.finish_reason) if answer else None
    ended = answer is not None
    status = "in_progress" if answer is None else "incomplete" if reason else "completed"
    body: dict[str, Any] = {
        "id": exchange.request.id,
        "object": "response",
        "created_at": exchange.entry.created_s,
        "completed_at": int(time.time()) if ended else None,
        "status": status,
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "model": exchange.served.name,
        "output": items,
        **echo,
        **_used(exchange),
        "usage": _usage(exchange) if ended else None,
    }
    return extended(body, exchange, explain=explain)


def _used(exchange: Exchange) -> dict[str, Any]:
    """Return what the answer was drawn with: of the request, else of the model. Clients that check a response by its
    published schema need a number for each."""
    asked, model = exchange.request.sampling, exchange.served
    return {
        "temperature": model.default_temperature if asked.temperature is None else asked.temperature,
        "top_p": model.defaults.get("top_p", 1.0) if asked.top_p is None else asked.top_p,
        "presence_penalty": asked.presence_penalty,
        "frequency_penalty": asked.frequency_penalty,
        "top_logprobs": asked.logprobs or 0,
    }


def _usage(exchange: Exchange) -> dict[str, Any]:
    counted = exchange.reported_usage
    return {
        "input_tokens": counted.prompt_tokens,
        "input_tokens_details": {"cached_tokens": counted.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": counted.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": exchange.thought_tokens},
        "total_tokens": counted.prompt_tokens + counted.completion_tokens,
    }
