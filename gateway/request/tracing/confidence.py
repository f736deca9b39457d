"""Answer `sluicegate.confidence`: the probability of each JSON value of each choice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sluicegate.gateway.answer.confidence import DrawnTokens, drawn_of, values_of
from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Answer, Request

OF_JSON = ("json_schema", "json_object")


def confidence_of(exchange: Exchange) -> dict[str, Any]:
    """Return `confidence`, or why there is none: tokens that a rail withheld, or that this generator does not
    describe."""
    if not any(_has_texts(exchange.request, answer) for answer in exchange.answers):
        return {"confidence_missing": "the answer has no JSON values: it has no schema, and calls no function"}
    line = exchange.timeline
    if line is None or not any(step.law is not None for step in line.steps):
        return {"confidence_missing": "the tokens of this answer were not described by what generated it"}
    if exchange.withholds_tokens:
        return {"confidence_missing": "a rail changed or stopped the answer"}
    found: list[dict[str, Any]] = []
    for answer in exchange.answers:
        drawn = drawn_of([step for step in line.steps if step.choice == answer.index])
        found += _of_choice(exchange.request, answer, drawn)
    return {"confidence": found}


def _of_choice(request: Request, answer: Answer, drawn: DrawnTokens) -> Iterator[dict[str, Any]]:
    """Look for the texts in their order, behind the thoughts."""
    at = max(0, drawn.text.find(b"</think>")) if answer.reasoning else 0
    for place, text, schema in _texts(request, answer):
        begins = drawn.text.find(text.encode("utf-8", "surrogatepass"), at)
        if begins >= 0 and text:
            at = begins + len(text.encode("utf-8", "surrogatepass"))
            yield {"index": answer.index, **place, "values": values_of(drawn, text, begins, schema)}


def _has_texts(request: Request, answer: Answer) -> bool:
    return next(_texts(request, answer), None) is not None


def _texts(request: Request, answer: Answer) -> Iterator[tuple[dict[str, Any], str, Any]]:
    constraint = request.constraint
    if constraint is not None and constraint.kind in OF_JSON:
        yield {}, answer.text, constraint.value if constraint.kind == "json_schema" else {}
    schemas = {tool.name: tool.parameters for tool in request.tools}
    for number, call in enumerate(answer.tool_calls):
        if call.name in request.custom_tools:
            continue
        yield {"call": number}, call.arguments, schemas.get(call.name, {})
