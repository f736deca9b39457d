"""The OpenAPI document that `/docs` shows: every route with what it takes and what it answers.

Bodies are read by hand, for speed and for errors of our own, so that FastAPI cannot know them; they are said here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sluicegate.gateway.api.body.unknown_fields import paths_of
from sluicegate.gateway.api.dialects.chat_request import ChatRequest
from sluicegate.gateway.api.dialects.completions_request import CompletionRequest
from sluicegate.gateway.api.dialects.messages_request import MessagesRequest
from sluicegate.gateway.api.dialects.responses_request import ResponsesRequest
from sluicegate.gateway.api.endpoints.batches import NewBatch
from sluicegate.gateway.api.endpoints.embeddings import EmbeddingRequest
from sluicegate.gateway.api.endpoints.moderations import ModerationRequest
from sluicegate.gateway.api.openapi import schemas as doc
from sluicegate.gateway.api.openapi.examples import CHAT, COMPLETION, EMBEDDING, MESSAGE, RESPONSE
from sluicegate.gateway.fields import Dialect, rows_of

JSON, EVENTS, TEXT, BYTES, FORM = (
    "application/json",
    "text/event-stream",
    "text/plain",
    "application/octet-stream",
    "multipart/form-data",
)
EVENT = {
    "type": "object",
    "description": "one server-sent event, with `stream: true`; `data` is JSON, or `[DONE]`",
    "properties": {"event": {"type": "string"}, "data": {"type": "string"}},
    "required": ["data"],
}
REF = "#/components/schemas/{model}"
DESCRIPTION = """One gateway for structured, screened and traced answers. Whatever a request asks to be enforced is
enforced while the answer is drawn, in every dialect: OpenAI's chat completions, responses and completions, Anthropic's
messages. What has no effect here is refused by name.

With keys: `Authorization: Bearer ...`, or `x-api-key`."""
TAGS = {
    "generate": "Answers, whole or streamed",
    "vectors": "Texts as vectors",
    "batches": "Many requests from a file, behind everybody who waits",
    "models": "What is served",
    "health": "For probes and scrapers",
}
ERRORS = {
    "400": "the request cannot be honoured; `code` and `param` say why",
    "401": "no key, or one that nobody knows",
    "403": "this key may not",
    "404": "no such thing",
    "408": "the body did not come in time",
    "413": "too large",
    "429": "too often; `Retry-After` says when again",
    "500": "the gateway failed on this request",
    "502": "the server behind this model failed",
    "503": "not ready, or overloaded; `Retry-After` says when again",
    "504": "past the `deadline_s` of the request",
}


@dataclass(frozen=True, slots=True)
class Said:
    """What the document says of one operation."""

    tag: str
    summary: str
    answer: type[BaseModel] | str
    """A model of JSON, or a media type."""
    takes: type[BaseModel] | None = None
    example: Mapping[str, Any] | None = None
    streams: bool = False
    form: bool = False


OPERATIONS: Mapping[tuple[str, str], Said] = {
    ("post", "/v1/chat/completions"): Said(
        "generate", "Create a chat completion", doc.ChatCompletion, ChatRequest, CHAT, streams=True
    ),
    ("post", "/v1/responses"): Said(
        "generate", "Create a response", doc.ResponseAnswer, ResponsesRequest, RESPONSE, streams=True
    ),
    ("get", "/v1/responses/{response_id}"): Said("generate", "Always 404: nothing is stored", doc.ResponseAnswer),
    ("post", "/v1/messages"): Said(
        "generate", "Create a message", doc.MessageAnswer, MessagesRequest, MESSAGE, streams=True
    ),
    ("post", "/v1/completions"): Said(
        "generate", "Complete a prompt as it is", doc.TextCompletion, CompletionRequest, COMPLETION, streams=True
    ),
    ("post", "/v1/embeddings"): Said("vectors", "Embed texts", doc.EmbeddingList, EmbeddingRequest, EMBEDDING),
    ("get", "/v1/models"): Said("models", "List the models", doc.ModelList),
    ("get", "/v1/models/{name}"): Said("models", "One model", doc.ModelCard),
    ("post", "/v1/files"): Said("batches", "Upload a file", doc.FileAnswer, doc.Upload, form=True),
    ("get", "/v1/files"): Said("batches", "List the files", doc.FileList),
    ("get", "/v1/files/{file_id}"): Said("batches", "One file", doc.FileAnswer),
    ("delete", "/v1/files/{file_id}"): Said("batches", "Remove a file", doc.FileDeleted),
    ("get", "/v1/files/{file_id}/content"): Said("batches", "A file's bytes", BYTES),
    ("post", "/v1/batches"): Said("batches", "Begin a batch", doc.BatchAnswer, NewBatch),
    ("get", "/v1/batches"): Said("batches", "List the batches, newest first", doc.BatchList),
    ("get", "/v1/batches/{batch_id}"): Said("batches", "One batch", doc.BatchAnswer),
    ("post", "/v1/batches/{batch_id}/cancel"): Said("batches", "End a batch, keep what it has", doc.BatchAnswer),
    ("get", "/healthz"): Said("health", "The process is alive", doc.Alive),
    ("get", "/readyz"): Said("health", "The model is loaded", TEXT),
    ("get", "/metrics"): Said("health", "Numbers for Prometheus", TEXT),
}
DIALECTS: Mapping[type[BaseModel], Dialect] = {
    ChatRequest: "chat",
    CompletionRequest: "completions",
    ResponsesRequest: "responses",
    MessagesRequest: "messages",
    EmbeddingRequest: "embeddings",
    ModerationRequest: "moderations",
}
NEVER_FAIL = ("/healthz", "/readyz", "/metrics")


def describe(app: FastAPI) -> None:
    """Give `app` the document; it is made at the first look."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    tags = [{"name": name, "description": text} for name, text in TAGS.items()]
    found = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes, tags=tags)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(_schemas())
    for path, operations in found["paths"].items():
        for method, operation in operations.items():
            _complete(operation, path, OPERATIONS.get((method, path)))
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own; it never leaves
        schemas.pop(name, None)
    key = {"type": "http", "scheme": "bearer"}
    header = {"type": "apiKey", "in": "header", "name": "x-api-key"}
    found["components"]["securitySchemes"] = {"bearer": key, "x-api-key": header}
    found["security"] = [{"bearer": []}, {"x-api-key": []}, {}]
    return found


def _schemas() -> dict[str, Any]:
    every: dict[type[BaseModel], None] = dict.fromkeys((doc.ErrorAnswer, doc.MessageErrorAnswer))
    for said in OPERATIONS.values():
        every |= {} if said.takes is None else {said.takes: None}
        every |= {} if isinstance(said.answer, str) else {said.answer: None}
    _, defs = models_json_schema([(model, "validation") for model in every], ref_template=REF)
    schemas = dict(defs["$defs"])
    for kind, dialect in DIALECTS.items():
        _describe(schemas, kind, dialect)
    return schemas


def _describe(schemas: dict[str, Any], kind: type[BaseModel], dialect: Dialect) -> None:
    """Say of every field what the table of fields says of it. A model that several dialects share is described by the
    first."""
    rows = rows_of(dialect)
    for path, model, name in paths_of(kind):
        shown = schemas.get(model.__name__, {}).get("properties", {}).get(model.model_fields[name].alias or name)
        if shown is not None and path in rows:
            row = rows[path]
            shown.setdefault("description", f"{row.about} ({row.why})" if row.why else row.about)


def _complete(operation: dict[str, Any], path: str, said: Said | None) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    if path not in NEVER_FAIL:
        shape = doc.MessageErrorAnswer if path.startswith("/v1/messages") else doc.ErrorAnswer
        for status, text in ERRORS.items():
            answers.setdefault(status, {"description": text, "content": {JSON: {"schema": _ref(shape)}}})
    if path == "/readyz":
        answers["503"] = {"description": "not yet; the text says what is under way", "content": {TEXT: {}}}
    if said is None:
        return
    operation["tags"], operation["summary"] = [said.tag], said.summary
    answers["200"] = {"description": "done", "content": _content(said)}
    if said.takes is not None:
        body: dict[str, Any] = {"schema": _ref(said.takes)}
        if said.example is not None:
            body["example"] = said.example
        operation["requestBody"] = {"required": True, "content": {FORM if said.form else JSON: body}}


def _content(said: Said) -> dict[str, Any]:
    if isinstance(said.answer, str):
        schema = {"type": "string", **({"format": "binary"} if said.answer == BYTES else {})}
        return {said.answer: {"schema": schema}}
    content: dict[str, Any] = {JSON: {"schema": _ref(said.answer)}}
    if said.streams:
        content[EVENTS] = {"schema": EVENT}
    return content


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": REF.format(model=model.__name__)}
