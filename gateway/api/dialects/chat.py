"""`/v1/chat/completions`: OpenAI's chat completions, with vLLM's and SGLang's additions."""

from __future__ import annotations

from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.api.dialects.chat_answer import ChunkWriter, completion
from sluicegate.gateway.api.dialects.chat_request import FIELDS, parse_chat
from sluicegate.gateway.api.openapi.examples import MESSAGES, PERSON
from sluicegate.gateway.api.openapi.schemas import ChatCompletion

CHAT = TextDialect(
    name="chat",
    path="/v1/chat/completions",
    fields=FIELDS,
    summary="Create a chat completion",
    answer=ChatCompletion,
    example={
        "model": "bundled",
        "messages": MESSAGES,
        "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
    },
    read=parse_chat,
    whole=lambda exchange, parsed: completion(exchange, explain=parsed.explain),
    writer=ChunkWriter,
    over_socket=True,
)
