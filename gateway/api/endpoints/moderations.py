"""`/v1/moderations` in OpenAI's shape, answered by the rails that this gateway runs.

Categories are those of the rails, not OpenAI's thirteen: `false` for something that nobody looked for would be a lie.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from sluicegate.gateway.api.body.parsing import read_body
from sluicegate.gateway.api.body.unknown_fields import Heeding, Listed, Wire
from sluicegate.gateway.api.delivery import Nobody
from sluicegate.gateway.api.endpoints.embeddings import NO_ANSWER
from sluicegate.gateway.api.serving import JSON, told
from sluicegate.gateway.http.disconnects import ClientLeft, unless_left
from sluicegate.gateway.request.guarding.judge import Judgement
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import Message, RequestTooLarge
from sluicegate.plugins import Request as Asked

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


FIELDS = Heeding(ModerationRequest, "moderations")


def add_moderation_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/moderations", tags=["safety"])
    async def create_moderation(request: Request) -> Any:
        asked, ignored = await runtime.reader.parse(request, parse_moderation)
        _check_length(asked, runtime.settings.server.max_moderated_chars)
        runtime.check_ready()
        context, route = parent_context(request.headers), request.scope["path"]
        try:
            judging = runtime.pipeline.judge(asked, context, route=route)
            found = await unless_left(request.scope, request.receive, judging)
        except ClientLeft:
            return Nobody()
        return Response(_body(asked, found, ignored), media_type=JSON, headers=told(ignored))


def parse_moderation(body: Mapping[str, Any], api_key: str | None = None) -> tuple[Asked, tuple[str, ...]]:
    """What is asked, and the paths of what is not used. Raises `RequestError` that names the field by path."""
    wire, ignored = read_body(body, FIELDS)
    texts = [wire.input] if isinstance(wire.input, str) else [_text(part) for part in wire.input]
    asked = Asked(
        id=f"modr-{uuid.uuid4().hex}",
        model=wire.model,
        messages=tuple(Message("user", text) for text in texts),
        api_key=api_key,
        sampling=NO_ANSWER,
        cache=False,
    )
    return asked, ignored


def _check_length(asked: Asked, most: int) -> None:
    chars = sum(len(message.content) for message in asked.messages)
    if chars > most:
        raise RequestTooLarge(
            f"`input` has {chars} characters; this gateway judges at most {most} a request ([server] "
            "max_moderated_chars): send it in parts",
            param="input",
        )


def _text(part: str | TextInput) -> str:
    return part if isinstance(part, str) else part.text


def _body(asked: Asked, found: list[Judgement], ignored: tuple[str, ...]) -> bytes:
    body: dict[str, Any] = {
        "id": asked.id,
        "model": asked.model or "sluicegate-rails",
        "results": [_result(judgement) for judgement in found],
    }
    not_enforced = sorted({note for judgement in found for note in judgement.not_enforced})
    notes = {"ignored": ignored, "not_enforced": not_enforced}
    if any(notes.values()):
        body["sluicegate"] = {name: told for name, told in notes.items() if told}
    return orjson.dumps(body)


def _result(judgement: Judgement) -> dict[str, Any]:
    names = sorted(judgement.scores)
    return {
        "flagged": judgement.flagged,
        "categories": {name: name in judgement.hits for name in names},
        "category_scores": {name: judgement.scores[name] for name in names},
        "category_applied_input_types": {name: ["text"] for name in names},
    }
