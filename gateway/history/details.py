"""One request in full, as the console shows it: spans, parameters, shape of the answer, and what was opted in to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

from sluicegate.gateway.history.rows import LEFT, RequestLine, summary, verdicts_of
from sluicegate.gateway.request.tracing.explain import engine_times, token_steps
from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.telemetry.finished_request import CapturedContent, FinishedRequest
from sluicegate.gateway.telemetry.span_builder import SpanFact, spans_of
from sluicegate.plugins import GenerationFailed, Overloaded, UpstreamFailed

HIDDEN = (semconv.INPUT_MESSAGES, semconv.OUTPUT_MESSAGES, semconv.INPUT_VALUE, semconv.OUTPUT_VALUE)
BAD = ("block", "failed")
MADE_GOOD = (Overloaded.code, UpstreamFailed.code, GenerationFailed.code)
"""Outcomes of a stage after which another model may have answered."""
NAMES = ("type", "format", "$ref", "$schema", "$id", "$anchor", "$dynamicRef", "required", "dependentRequired")
"""Keywords whose strings are names; other strings of a schema are the caller's own words."""
WORDS = ("enum", "const", "default", "examples", "example")
DEEPEST = 40


def details_of(done: FinishedRequest, row: RequestLine) -> dict[str, Any]:
    """Return a request in full. Only `messages`, `answers` and `asked` hold content; `withheld` counts what a rail
    withheld."""
    more = done.particulars
    found: dict[str, Any] = {
        **summary(row, verdicts_of(done)),
        "policy": done.policy,
        "rails": list(done.rails),
        "not_enforced": list(done.not_enforced),
        "review": done.review,
        "template": done.template,
        "error": _error(done),
        "parameters": _parameters(done),
        "shape": None
        if more.constraint is None
        else {"kind": more.constraint.kind, "value": outline(more.constraint.value)},
        "tools": [{"name": tool.name, "parameters": outline(tool.parameters)} for tool in more.tools],
        "spans": [_span(span, done.error) for span in spans_of(done)],
        "holds": [
            {
                "choice": hold.choice,
                "at_ms": (hold.began_s - done.began_s) * 1e3,
                "ms": (hold.ended_s - hold.began_s) * 1e3,
                "characters": hold.characters,
            }
            for hold in done.holds
        ],
    }
    found["focus"] = focus(found["spans"])
    if done.timeline is not None:
        found["engine"] = engine_times(done.timeline)
        found["tokens"] = token_steps(done.timeline)
    return found if done.content is None else {**found, **_content_row(done.content)}


def _error(done: FinishedRequest) -> dict[str, str] | None:
    """Return the error that the caller got, with the cause where one is known."""
    failure = done.particulars.failure
    if failure is None:
        return None
    found = {"code": done.error or "", "message": failure.message}
    return {**found, "cause": failure.cause} if failure.cause else found


def outline(schema: Any, under: str = "", depth: int = 0) -> Any:
    """Return a schema with its structure and without its words: values of `enum` and `const`, descriptions, patterns
    and whole grammars are counted, not shown."""
    if depth > DEEPEST:
        return "…"
    if isinstance(schema, Mapping):
        return {
            str(name): _counted(value)
            if name in WORDS and under != "properties"
            else outline(value, str(name), depth + 1)
            for name, value in schema.items()
        }
    if isinstance(schema, list | tuple):
        return [outline(value, under, depth + 1) for value in schema]
    if isinstance(schema, str) and under in NAMES:
        return schema[:64]
    return schema if schema is None or isinstance(schema, bool | int | float) else _counted(schema)


def focus(spans: list[dict[str, Any]]) -> int:
    """Return the place of the span to look at first: the one that failed or refused, else one that changed something,
    else the longest below the request. The last failure counts: earlier ones were made good by another try."""
    for kind in ("bad", "warn"):
        found = [at for at, span in enumerate(spans) if at and span["mark"] == kind]
        if found:
            return found[-1]
    return max(range(1, len(spans)), key=lambda at: spans[at]["ms"], default=0)


def _span(span: SpanFact, error: str | None) -> dict[str, Any]:
    return {
        "name": span.name,
        "parent": span.parent,
        "at_ms": span.began_s * 1e3,
        "ms": (span.ended_s - span.began_s) * 1e3,
        "slot": span.attributes.get(semconv.STAGE_SLOT, "request"),
        "failed": span.failed,
        "mark": _mark(span, error),
        "attributes": {name: value for name, value in span.attributes.items() if name not in HIDDEN},
        "events": [
            {"name": event.name, "at_ms": event.at_s * 1e3, "attributes": dict(event.attributes)}
            for event in span.events
        ],
    }


def _mark(span: SpanFact, error: str | None) -> str:
    """Return `bad`, `warn` or "": how its bar is drawn. `error`: how the request ended."""
    verdict = str(span.attributes.get(semconv.GUARD_VERDICT, ""))
    outcome = str(span.attributes.get(semconv.STAGE_OUTCOME, ""))
    if LEFT in (outcome, span.attributes.get(semconv.ERROR_TYPE)):
        return "warn"
    if span.failed or verdict in BAD or (outcome == error and not verdict) or outcome in MADE_GOOD:
        return "bad"
    return "warn" if verdict not in ("", "pass") else ""


def _parameters(done: FinishedRequest) -> dict[str, Any]:
    """Return what was asked of the draw, without what stands at its default, and without texts of the caller's."""
    sampling = done.asked.sampling
    plain = type(sampling)()
    found: dict[str, Any] = {"n": done.asked.n} if done.asked.n != 1 else {}
    for name, hint in get_type_hints(type(sampling)).items():
        value = getattr(sampling, name)
        if value != getattr(plain, name):
            known = value is None or isinstance(value, bool | int | float) or _is_listed(hint, value)
            found[name] = value if known else _counted(value)
    return found


def _is_listed(hint: Any, value: Any) -> bool:
    """Return whether `value` is one of the words that a `Literal` in `hint` has."""
    inner = get_args(hint)
    return value in inner if get_origin(hint) is Literal else any(_is_listed(one, value) for one in inner)


def _counted(value: Any) -> str:
    if isinstance(value, str):
        return f"({len(value)} characters)"
    try:
        return f"({len(value)} values)"
    except TypeError:
        return "(set)"


def _content_row(content: CapturedContent) -> dict[str, Any]:
    return {
        "messages": [{"role": role, "text": text} for role, text in content.messages],
        "answers": [{"text": text, "ended": ended} for text, ended in content.answers],
        "asked": [{"what": what, "text": text} for what, text in content.asked],
        "withheld": len(content.withheld),
    }
