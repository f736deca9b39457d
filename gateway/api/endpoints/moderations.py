"""`/v1/moderations` in OpenAI's shape, answered by the rails that this gateway runs.

Categories are those of the rails, not OpenAI's thirteen: `false` for what no rail looks for would be wrong.
"""

from __future__ import annotations

import uuid
from typing import Annotated, Any, Literal

import orjson
from fastapi import Request as HttpRequest
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from sluicegate.gateway.api.body.parsing import Parsed, Tree, read_body
from sluicegate.gateway.api.body.unknown_fields import BodyFields, Listed, Wire
from sluicegate.gateway.api.delivery import NoResponse
from sluicegate.gateway.api.dialect import Dialect, ignored_header
from sluicegate.gateway.api.openapi.schemas import ModerationAnswer
from sluicegate.gateway.http.disconnects import ClientDisconnected, unless_disconnected
from sluicegate.gateway.http.errors import JSON
from sluicegate.gateway.request.guarding.judge import Judgement
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import Message, Request, RequestTooLarge, Sampling

MAX_TEXTS = 256
Text = Annotated[str, Field(min_length=1)]


class TextInput(BaseModel):
    """A part of the list form; images are refused, since no rail here sees them."""

    model_config = ConfigDict(extra="forbid")
    type: Literal["text"]
    text: Text


class ModerationRequest(Wire):
    input: Text | Annotated[Listed[Text | TextInput], Field(min_length=1, max_length=MAX_TEXTS)]
    model: str = ""


FIELDS = BodyFields(ModerationRequest, "moderations")


def parse_moderation(body: bytes | Tree, api_key: str | None = None) -> Parsed:
    """Read a request for moderation. Raises `RequestError` that names the field by path."""
    wire, ignored = read_body(body, FIELDS)
    texts = [wire.input] if isinstance(wire.input, str) else [_text(part) for part in wire.input]
    request = Request(
        id=f"modr-{uuid.uuid4().hex}",
        model=wire.model,
        messages=tuple(Message("user", text) for text in texts),
        api_key=api_key,
        sampling=Sampling(max_tokens=1),  # limits of tokens reserve no room for an answer that nobody writes
        cache=False,
    )
    return Parsed(request, ignored=ignored)


class ModerationsDialect(Dialect):
    async def respond(self, runtime: Runtime, request: HttpRequest) -> Response:
        parsed = await runtime.reader.parse(request, parse_moderation)
        _check_length(parsed.request, runtime.settings.server.max_moderated_chars)
        runtime.check_ready()
        context, route = parent_context(request.headers), request.scope["path"]
        work = runtime.pipeline.judge(parsed.request, context, route=route)
        try:
            found = await unless_disconnected(request.scope, request.receive, work)
        except ClientDisconnected:
            return NoResponse()
        return Response(_body(parsed, found), media_type=JSON, headers=ignored_header(parsed.ignored))


def _check_length(asked: Request, most: int) -> None:
    chars = sum(len(message.content) for message in asked.messages)
    if chars > most:
        raise RequestTooLarge(
            f"`input` has {chars} characters; this gateway judges at most {most} a request ([server] "
            "max_moderated_chars): send it in parts",
            param="input",
        )


def _text(part: str | TextInput) -> str:
    return part if isinstance(part, str) else part.text


def _body(parsed: Parsed, found: list[Judgement]) -> bytes:
    body: dict[str, Any] = {
        "id": parsed.request.id,
        "model": parsed.request.model or "sluicegate-rails",
        "results": [_result(judgement) for judgement in found],
    }
    not_enforced = sorted({note for judgement in found for note in judgement.not_enforced})
    notes = {"ignored": parsed.ignored, "not_enforced": not_enforced}
    if any(notes.values()):
        body["sluicegate"] = {name: said for name, said in notes.items() if said}
    return orjson.dumps(body)


def _result(judgement: Judgement) -> dict[str, Any]:
    names = sorted(judgement.scores)
    return {
        "flagged": judgement.flagged,
        "categories": {name: name in judgement.hits for name in names},
        "category_scores": {name: judgement.scores[name] for name in names},
        "category_applied_input_types": {name: ["text"] for name in names},
    }


MODERATIONS = ModerationsDialect(
    name="moderations",
    path="/v1/moderations",
    fields=FIELDS,
    summary="Judge texts by the rails",
    answer=ModerationAnswer,
    example={"input": "one text"},
    tag="safety",
    in_batches=False,
)
