"""The OpenAPI document that `/docs` shows: every route with what it takes and what it answers.

Bodies are read by hand, for speed and for errors of our own, so that FastAPI cannot know them; they are described here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from sluicegate.gateway.api.body.unknown_fields import BodyFields, paths_of
from sluicegate.gateway.api.dialect import Dialect, Operation
from sluicegate.gateway.api.endpoints.batches import endpoints_of, new_batch
from sluicegate.gateway.api.openapi import examples
from sluicegate.gateway.api.openapi import schemas as doc
from sluicegate.gateway.http.errors import ErrorForms

JSONL = "application/x-jsonl"
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
    "safety": "What the rails say of texts, and where they were wrong",
    "reviews": "What waits until a person has decided",
    "batches": "Many requests from a file, behind everybody who waits",
    "feedback": "What users say of answers",
    "mcp": "Tools of MCP servers, and the gateway's own",
    "cache": "Answers withdrawn, and told to be wrong",
    "models": "What is served",
    "tokens": "What a prompt is made of; nothing is generated",
    "health": "For probes and scrapers",
    "admin": "For operators: keys with the scope `admin`, or loopback where there are no keys",
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


OTHERS: Mapping[tuple[str, str], Operation] = {
    ("get", "/v1/responses/{response_id}"): Operation("generate", "Always 404: nothing is stored", doc.ResponseAnswer),
    ("get", "/v1/models"): Operation("models", "List the models", doc.ModelList),
    ("get", "/v1/models/{name}"): Operation("models", "One model", doc.ModelCard),
    ("post", "/v1/files"): Operation("batches", "Upload a file", doc.FileAnswer, doc.Upload, form=True),
    ("get", "/v1/files"): Operation("batches", "List the files", doc.FileList),
    ("get", "/v1/files/{file_id}"): Operation("batches", "One file", doc.FileAnswer),
    ("delete", "/v1/files/{file_id}"): Operation("batches", "Remove a file", doc.FileDeleted),
    ("get", "/v1/files/{file_id}/content"): Operation("batches", "A file's bytes", BYTES),
    ("get", "/v1/batches"): Operation("batches", "List the batches, newest first", doc.BatchList),
    ("get", "/v1/batches/{batch_id}"): Operation("batches", "One batch", doc.BatchAnswer),
    ("post", "/v1/batches/{batch_id}/cancel"): Operation("batches", "End a batch, keep what it has", doc.BatchAnswer),
    ("post", "/v1/messages/batches"): Operation(
        "batches", "Begin a batch of messages", doc.MessageBatchAnswer, doc.MessageBatchAsked, examples.BATCHED
    ),
    ("get", "/v1/messages/batches"): Operation(
        "batches", "List the batches of messages, newest first", doc.MessageBatchList
    ),
    ("get", "/v1/messages/batches/{batch_id}"): Operation("batches", "One batch of messages", doc.MessageBatchAnswer),
    ("delete", "/v1/messages/batches/{batch_id}"): Operation(
        "batches", "Remove a batch of messages, and what it wrote", doc.MessageBatchDeleted
    ),
    ("post", "/v1/messages/batches/{batch_id}/cancel"): Operation(
        "batches", "End a batch of messages, keep what it has", doc.MessageBatchAnswer
    ),
    ("get", "/v1/messages/batches/{batch_id}/results"): Operation(
        "batches", "What became of each message of a batch", JSONL
    ),
    ("get", "/healthz"): Operation("health", "The process is alive", doc.Alive),
    ("get", "/readyz"): Operation("health", "The model is loaded", TEXT),
    ("get", "/health"): Operation("health", "As /readyz, without words", TEXT),
    ("get", "/ping"): Operation("health", "As /readyz, without words", TEXT),
    ("post", "/ping"): Operation("health", "As /readyz, without words", TEXT),
    ("get", "/version"): Operation("health", "The version of this gateway", doc.VersionAnswer),
    ("get", "/load"): Operation("health", "Requests under way, as vLLM says it", doc.LoadAnswer),
    ("post", "/v1/messages/count_tokens"): Operation(
        "tokens", "Tokens of the prompt of a message", doc.InputTokens, doc.TokensAsked, example=examples.COUNTED
    ),
    ("post", "/v1/responses/input_tokens"): Operation(
        "tokens", "Tokens of the prompt of a response", doc.InputTokens, doc.TokensAsked, example=examples.INPUT
    ),
    ("post", "/tokenize"): Operation(
        "tokens", "Tokens of a prompt, or of messages", doc.Tokenized, doc.TokensAsked, example=examples.COUNTED
    ),
    ("post", "/detokenize"): Operation(
        "tokens", "The text of tokens", doc.Detokenized, doc.TokensGiven, example=examples.GIVEN
    ),
    **{
        ("post", path): Operation(
            "vectors", "Rank documents for a query", doc.Ranking, doc.RankingAsked, example=examples.RANKED
        )
        for path in ("/v1/rerank", "/rerank", "/v2/rerank")
    },
    **{
        ("post", path): Operation(
            "vectors", "Score pairs of texts", doc.ScoreList, doc.ScoresAsked, example=examples.SCORED
        )
        for path in ("/v1/score", "/score")
    },
    ("get", "/metrics"): Operation("health", "Numbers for Prometheus", TEXT),
}
NEVER_FAIL = ("/healthz", "/readyz", "/health", "/ping", "/metrics")


def operations(dialects: Sequence[Dialect]) -> dict[tuple[str, str], Operation]:
    """Return every operation that is described, by method and path."""
    batch = Operation("batches", "Begin a batch", doc.BatchAnswer, new_batch(endpoints_of(dialects)))
    ours = {("post", dialect.path): dialect.operation for dialect in dialects}
    return {**ours, **OTHERS, ("post", "/v1/batches"): batch}


def describe(app: FastAPI, dialects: Sequence[Dialect], forms: ErrorForms) -> None:
    """Give `app` the document; it is made at the first look."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, dialects, forms)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI, dialects: Sequence[Dialect], forms: ErrorForms) -> dict[str, Any]:
    tags = [{"name": name, "description": text} for name, text in TAGS.items()]
    found = get_openapi(title=app.title, version=app.version, description=DESCRIPTION, routes=app.routes, tags=tags)
    known = operations(dialects)
    schemas = found.setdefault("components", {}).setdefault("schemas", {})
    schemas.update(_schemas(known.values(), dialects))
    for path, methods in found["paths"].items():
        error = forms.of(path).answer or doc.ErrorAnswer
        for method, operation in methods.items():
            _complete(operation, path, known.get((method, path)), error)
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own; it never leaves
        schemas.pop(name, None)
    key = {"type": "http", "scheme": "bearer"}
    header = {"type": "apiKey", "in": "header", "name": "x-api-key"}
    found["components"]["securitySchemes"] = {"bearer": key, "x-api-key": header}
    found["security"] = [{"bearer": []}, {"x-api-key": []}, {}]
    return found


def _schemas(known: Iterable[Operation], dialects: Sequence[Dialect]) -> dict[str, Any]:
    errors = [dialect.errors.answer for dialect in dialects]
    shown = [model for operation in known for model in (operation.takes, operation.answer)]
    models = [model for model in (doc.ErrorAnswer, *errors, *shown) if isinstance(model, type)]
    _, defs = models_json_schema([(model, "validation") for model in dict.fromkeys(models)], ref_template=REF)
    schemas = dict(defs["$defs"])
    for dialect in dialects:
        _describe(schemas, dialect.fields)
    return schemas


def _describe(schemas: dict[str, Any], fields: BodyFields[Any]) -> None:
    """Describe every field as the table of fields does. A model that several dialects share is described by the
    first."""
    for path, model, name in paths_of(fields.kind):
        shown = schemas.get(model.__name__, {}).get("properties", {}).get(model.model_fields[name].alias or name)
        row = fields.rows.get(path)
        if shown is not None and row is not None:
            shown.setdefault("description", f"{row.about} ({row.why})" if row.why else row.about)


def _complete(operation: dict[str, Any], path: str, known: Operation | None, error: type[BaseModel]) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    if path not in NEVER_FAIL:
        for status, text in ERRORS.items():
            answers.setdefault(status, {"description": text, "content": {JSON: {"schema": _ref(error)}}})
    if path in ("/readyz", "/health", "/ping"):
        answers["503"] = {"description": "not yet; the text says what is under way", "content": {TEXT: {}}}
    if known is None:  # told by the docstring of its function
        operation["summary"], _, rest = operation.pop("description", operation["summary"]).partition("\n\n")
        operation.update({"description": rest} if rest else {})
        return
    operation["tags"], operation["summary"] = [known.tag], known.summary
    answers["200"] = {"description": "done", "content": _content(known)}
    if known.takes is not None:
        body: dict[str, Any] = {"schema": _ref(known.takes)}
        if known.example is not None:
            body["example"] = known.example
        operation["requestBody"] = {"required": True, "content": {FORM if known.form else JSON: body}}


def _content(known: Operation) -> dict[str, Any]:
    if isinstance(known.answer, str):
        schema = {"type": "string", **({"format": "binary"} if known.answer == BYTES else {})}
        return {known.answer: {"schema": schema}}
    content: dict[str, Any] = {JSON: {"schema": _ref(known.answer)}}
    if known.streams:
        content[EVENTS] = {"schema": EVENT}
    return content


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": REF.format(model=model.__name__)}
