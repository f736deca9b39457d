"""`/v1/messages`: Anthropic's interface."""

from __future__ import annotations

from fastapi import APIRouter, Request

from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.api.dialects.messages_answer import MessageWriter, message, message_error
from sluicegate.gateway.api.dialects.messages_request import FIELDS, parse_messages
from sluicegate.gateway.api.openapi.examples import MESSAGES as SAID
from sluicegate.gateway.api.openapi.examples import PERSON
from sluicegate.gateway.api.openapi.schemas import MessageAnswer, MessageErrorAnswer
from sluicegate.gateway.http.api_key import api_key_of
from sluicegate.gateway.http.errors import ErrorForm
from sluicegate.gateway.runtime import Runtime
from sluicegate.plugins import NotFound


def _add_batches(router: APIRouter, runtime: Runtime) -> None:
    """Answer Anthropic's batches, whose shape is another than that of `/v1/batches`, in words."""

    async def refuse(request: Request) -> None:
        runtime.identify(api_key_of(request))
        raise NotFound(
            "batches of messages are not served; send the lines to /v1/batches with the endpoint /v1/chat/completions",
            code="message_batches_not_served",
        )

    for path, methods in (("", ["GET", "POST"]), ("/{batch_id}", ["GET", "DELETE"])):
        router.add_api_route(f"/v1/messages/batches{path}", refuse, methods=methods, include_in_schema=False)
    for path, method in (("results", "GET"), ("cancel", "POST")):
        place = f"/v1/messages/batches/{{batch_id}}/{path}"
        router.add_api_route(place, refuse, methods=[method], include_in_schema=False)


MESSAGES = TextDialect(
    name="messages",
    path="/v1/messages",
    fields=FIELDS,
    summary="Create a message",
    answer=MessageAnswer,
    example={
        "model": "bundled",
        "max_tokens": 200,
        "messages": SAID,
        "output_config": {"format": {"type": "json_schema", "schema": PERSON}},
    },
    read=parse_messages,
    whole=message,
    writer=MessageWriter,
    errors=ErrorForm(message_error, b"request-id", MessageErrorAnswer),
    in_batches=False,
    add_routes=_add_batches,
)
