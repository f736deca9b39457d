"""How many tokens a prompt has, and which: Anthropic's `count_tokens`, OpenAI's `input_tokens`, vLLM's `/tokenize` and
`/detokenize`.

A prompt is read, routed and put together as if it were to be answered, with tools, schema and documents, for a key that
may ask; nothing is generated, so no rail is asked and nothing is charged but the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic import Field

from sluicegate.gateway.api.body.parsing import LONGEST_MODEL, InWordsOf, Parse, Parsed, Tree, checked
from sluicegate.gateway.api.delivery import NoResponse
from sluicegate.gateway.api.dialects.chat_request import parse_chat
from sluicegate.gateway.api.dialects.completions_request import parse_completions
from sluicegate.gateway.api.dialects.messages_request import parse_messages
from sluicegate.gateway.api.dialects.responses_request import parse_response
from sluicegate.gateway.http.admission import admitted
from sluicegate.gateway.http.bodies import StrictBody
from sluicegate.gateway.http.disconnects import ClientDisconnected, unless_disconnected
from sluicegate.gateway.http.errors import JSON
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.telemetry import parent_context
from sluicegate.plugins import NotFound, RequestError, Sampling, ServedModel, exact_json

MOST_TOKENS = 99_000
"""Of one `/detokenize`: a body with as many values is one that `[server] max_values` lets in by default."""
UNBOUNDED = 2**31 - 1
Written = Callable[[Exchange], dict[str, Any]]


class DetokenizeBody(StrictBody):
    model: Annotated[str, Field(max_length=LONGEST_MODEL)] | None = None
    tokens: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=MOST_TOKENS)]


def add_token_routes(router: APIRouter, runtime: Runtime) -> None:
    @router.post("/v1/messages/count_tokens")
    async def count_tokens(request: Request) -> Response:
        return await _counted(runtime, request, _limited(parse_messages), _input_tokens)

    @router.post("/v1/responses/input_tokens")
    async def input_tokens(request: Request) -> Response:
        return await _counted(runtime, request, parse_response, _response_tokens)

    @router.post("/tokenize")
    async def tokenize(request: Request) -> Response:
        return await _counted(runtime, request, _parse_tokenize, _tokens)

    @router.post("/detokenize")
    async def detokenize(request: Request) -> Response:
        await admitted(runtime, request)
        runtime.check_ready()
        body = await runtime.reader.read(request, lambda tree: checked(DetokenizeBody, tree))
        return Response(orjson.dumps({"prompt": _text(runtime, body)}), media_type=JSON)


async def _counted(runtime: Runtime, request: Request, parse: Parse[Parsed], write: Written) -> Response:
    parsed = await runtime.reader.parse(request, parse)
    runtime.check_ready()
    asked = replace(parsed.request, sampling=Sampling(max_tokens=1), n=1, stream=False, cache=False)
    context, route = parent_context(request.headers), request.scope["path"]
    try:
        with InWordsOf(parsed):
            work = runtime.pipeline.count(asked, context, route=route)
            exchange = await unless_disconnected(request.scope, request.receive, work)
    except ClientDisconnected:
        return NoResponse()
    return Response(exact_json.write(write(exchange)), media_type=JSON)


def _limited(parse: Parse[Parsed]) -> Parse[Parsed]:
    """Return `parse` for bodies that need not say how long an answer may be: long enough for any budget of thoughts."""
    return lambda body, key: parse({"max_tokens": UNBOUNDED, **body}, key)


def _parse_tokenize(body: Tree, key: str | None) -> Parsed:
    """Read a chat, where there are `messages`, or else a prompt as completions have it."""
    tree = {name: value for name, value in body.items() if name != "return_token_strs"}
    if "messages" in tree:
        parsed = parse_chat(tree, key)
        if parsed.request.parts is not None and parsed.request.parts.template:
            raise RequestError(
                "a template's text is the operator's and is not shown as tokens; /v1/messages/count_tokens counts them",
                param="sluicegate.template",
            )
        return parsed
    parsed = parse_completions(tree, key)
    if parsed.others:
        raise RequestError("send one prompt at a time", param="prompt")
    return parsed


def _input_tokens(exchange: Exchange) -> dict[str, Any]:
    return {"input_tokens": len(_ids(exchange))}


def _response_tokens(exchange: Exchange) -> dict[str, Any]:
    return {"object": "response.input_tokens", "input_tokens": len(_ids(exchange))}


def _tokens(exchange: Exchange) -> dict[str, Any]:
    """Return the tokens of a prompt. `token_strs` is null where the tokenizer, a plug-in's for instance, does not spell
    single tokens."""
    ids, model = _ids(exchange), exchange.served
    spell = getattr(model.tokenizer, "convert_ids_to_tokens", None)
    pieces = None if spell is None else spell(list(ids))
    return {"count": len(ids), "max_model_len": model.context_length, "tokens": list(ids), "token_strs": pieces}


def _ids(exchange: Exchange) -> tuple[int, ...]:
    _check_known(exchange.served)
    assert exchange.attempt.prompt is not None
    return tuple(exchange.attempt.prompt.token_ids)


def _text(runtime: Runtime, body: DetokenizeBody) -> str:
    """Return the text of token ids. Raises `NotFound` for a model that is not there, `RequestError` for ids that it
    does not have."""
    model = _model(runtime.models, body.model)
    size = len(model.tokenizer)
    if wrong := next((token for token in body.tokens if token >= size), None):
        raise RequestError(f"token {wrong} is none of the {size} of model {model.name!r}", param="tokens")
    text: str = model.tokenizer.decode(body.tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return text


def _model(models: Mapping[str, ServedModel], name: str | None) -> ServedModel:
    found = models.get(name) if name is not None else next(iter(models.values()), None)
    if found is None:
        served = ", ".join(sorted(models))
        raise NotFound(f"there is no model {name!r} here; served: {served}", param="model", code="model_not_found")
    _check_known(found)
    return found


def _check_known(model: ServedModel) -> None:
    if model.remote:
        raise RequestError(
            f"another server runs {model.name!r}, so its tokens are not known here; ask that server", param="model"
        )
