"""`/v1/messages`: Anthropic's interface."""

from __future__ import annotations

from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.api.dialects.message_batches import ENDPOINT, add_message_batches
from sluicegate.gateway.api.dialects.messages_answer import MessageWriter, message, message_error
from sluicegate.gateway.api.dialects.messages_request import FIELDS, parse_messages
from sluicegate.gateway.api.openapi.examples import MESSAGES as SAID
from sluicegate.gateway.api.openapi.examples import PERSON
from sluicegate.gateway.api.openapi.schemas import MessageAnswer, MessageErrorAnswer
from sluicegate.gateway.http.errors import ErrorForm

MESSAGES = TextDialect(
    name="messages",
    path=ENDPOINT,
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
    add_routes=add_message_batches,
)
