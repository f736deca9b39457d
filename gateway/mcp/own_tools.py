"""This gateway's own tools: generate JSON that satisfies a schema, and screen a text."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opentelemetry import context as otel

from sluicegate.gateway.mcp.definitions import ToolDefinition
from sluicegate.gateway.mcp.errors import InvalidArguments, StoppedAnswer, unknown_tool
from sluicegate.gateway.mcp.schemas import CompiledSchemas
from sluicegate.gateway.mcp.settings import OWN
from sluicegate.gateway.prompts.places import BodyPlaces, in_words_of
from sluicegate.gateway.request.pipeline import Pipeline
from sluicegate.plugins import Constraint, GenerationFailed, Message, Request, RequestError, Sampling
from sluicegate.plugins.json_names import Path

ROUTE = f"/mcp/{OWN}"
MAX_TOKENS = 1024
GENERATE = ToolDefinition(
    OWN,
    {
        "name": "generate",
        "title": "Generate JSON by a schema",
        "description": "Answer a prompt with JSON that satisfies a JSON Schema, by construction.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "prompt": {"type": "string", "minLength": 1, "description": "The question."},
                "schema": {"type": ["object", "boolean"], "description": "The JSON Schema of the answer."},
                "model": {"type": "string", "description": "A served model; left out: the first."},
                "system": {"type": "string", "description": "Instructions that come before the prompt."},
                "max_tokens": {"type": "integer", "minimum": 1, "description": f"{MAX_TOKENS} where left out."},
                "temperature": {"type": "number", "minimum": 0, "maximum": 2},
                "seed": {"type": "integer"},
            },
            "required": ["prompt", "schema"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "value": {"description": "The answer: it satisfies the schema."},
                "model": {"type": "string"},
                "prompt_tokens": {"type": "integer"},
                "completion_tokens": {"type": "integer"},
            },
            "required": ["value", "model", "prompt_tokens", "completion_tokens"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
)
SCREEN = ToolDefinition(
    OWN,
    {
        "name": "screen",
        "title": "Screen a text",
        "description": "Judge a text by the safety rails of the gateway; nothing is generated.",
        "inputSchema": {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 1, "maxLength": 1_000_000}},
            "required": ["text"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "flagged": {"type": "boolean"},
                "categories": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "scores": {"type": "object", "additionalProperties": {"type": "number"}},
                "not_enforced": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["flagged", "categories", "scores", "not_enforced"],
        },
        "annotations": {"readOnlyHint": True, "openWorldHint": False},
    },
)
OWN_TOOLS: Mapping[str, ToolDefinition] = {one.name: one for one in (GENERATE, SCREEN)}


@dataclass(frozen=True, slots=True)
class OwnToolCaller:
    """The caller of one of the gateway's own tools. `nbytes`: size of the body; a large one is read in a thread."""

    tenant: str
    api_key: str | None
    parent: otel.Context | None
    nbytes: int


@dataclass(frozen=True, slots=True)
class GeneratePlaces(BodyPlaces):
    """Maps places of a request to the arguments of `generate`, for errors."""

    def message(self, request: Request, at: int, rest: Path) -> Path:
        return ("system",) if request.messages[at].role == "system" else ("prompt",)


class OwnTools:
    """Carries out calls of the gateway's own tools as requests that the pipeline admits, screens, charges and
    records."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._schemas = CompiledSchemas()

    async def call(self, tool: str, arguments: Mapping[str, Any], by: OwnToolCaller) -> dict[str, Any]:
        """Call one of the gateway's own tools. Raises a `SluicegateError`."""
        definition = OWN_TOOLS.get(tool)
        if definition is None:
            raise unknown_tool(OWN, tool)
        schema = self._schemas.of_input(definition)
        said = await self._pipeline.stages.workers.run(by.tenant, by.nbytes, schema.complaint, arguments)
        if said is not None:
            raise InvalidArguments(OWN, tool, said)
        work = self._generate if tool == GENERATE.name else self._screen
        structured = await work(arguments, by)
        text = json.dumps(structured, ensure_ascii=False)
        return {"content": [{"type": "text", "text": text}], "structuredContent": structured, "isError": False}

    async def _generate(self, arguments: Mapping[str, Any], by: OwnToolCaller) -> dict[str, Any]:
        model = arguments.get("model") or next(iter(self._pipeline.stages.generate[1].models), "")
        system = [Message("system", arguments["system"])] if arguments.get("system") else []
        request = Request(
            id=f"mcp-{uuid.uuid4().hex}",
            model=model,
            messages=(*system, Message("user", arguments["prompt"])),
            api_key=by.api_key,
            constraint=Constraint("json_schema", arguments["schema"]),
            sampling=Sampling(
                max_tokens=arguments.get("max_tokens", MAX_TOKENS),
                temperature=arguments.get("temperature"),
                seed=arguments.get("seed"),
                close_on_length=True,
            ),
            nbytes=by.nbytes,
        )
        try:
            exchange = await self._pipeline.open(request, by.parent, route=ROUTE)
            [answer] = await self._pipeline.collect(exchange)
        except RequestError as error:
            in_words_of(error, GeneratePlaces({"messages": "prompt"}, "schema"), request)
            raise
        if answer.refusal is not None:
            stopped = answer.finish_reason == "content_filter"
            raise StoppedAnswer(answer.refusal, exchange.review) if stopped else GenerationFailed(answer.refusal)
        usage = exchange.reported_usage
        try:
            value = json.loads(answer.text)
        except ValueError as error:
            raise GenerationFailed(f"the answer ended ({answer.finish_reason}) before it was whole") from error
        return {
            "value": value,
            "model": model,
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
        }

    async def _screen(self, arguments: Mapping[str, Any], by: OwnToolCaller) -> dict[str, Any]:
        request = Request(
            id=f"mcp-{uuid.uuid4().hex}",
            model="",
            messages=(Message("user", arguments["text"]),),
            api_key=by.api_key,
            sampling=Sampling(max_tokens=1),
            cache=False,
            nbytes=by.nbytes,
        )
        [judgement] = await self._pipeline.judge(request, by.parent, route=ROUTE)
        return {
            "flagged": judgement.flagged,
            "categories": {name: name in judgement.hits for name in sorted(judgement.scores)},
            "scores": {name: judgement.scores[name] for name in sorted(judgement.scores)},
            "not_enforced": judgement.not_enforced,
        }
