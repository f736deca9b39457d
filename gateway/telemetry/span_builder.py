"""Build the spans of a finished request; the console draws the same ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.telemetry.finished_request import (
    LEFT,
    CapturedContent,
    FinishedRequest,
    RequestParameters,
    ToolCallRecord,
)
from sluicegate.gateway.telemetry.tries import Try
from sluicegate.plugins import Decision, Timeline

Value = str | bool | int | float | tuple[str, ...]
GUARDS = ("screen", "moderate")
MAX_HOLD_EVENTS = 16
ANSWERING = (semconv.OPERATION_CHAT, semconv.OPERATION_TEXT)
"""Operations that generate an answer."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    name: str
    at_s: float
    attributes: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SpanFact:
    """Seconds are from the request's arrival. `parent` is the place of its parent among the trace's spans."""

    name: str
    began_s: float
    ended_s: float
    attributes: Mapping[str, Value]
    parent: int | None = 0
    events: tuple[SpanEvent, ...] = ()
    failed: bool = False
    span_id: int | None = None
    """Set where the id was already sent to another server; None: any id."""


def spans_of(done: FinishedRequest) -> list[SpanFact]:
    """Return the root, then one span for each stage, below the delivery those of the engine, and one for each try at
    another server."""
    spans = [_root(done)]
    for decision in done.decisions:
        called = done.tool is not None and (decision.slot, decision.stage) == ("generate", done.tool.server)
        spans.append(_sent(done.tool, decision) if called and done.tool is not None else _stage(decision))
        if (decision.slot, decision.stage) == ("generate", "deliver"):
            spans[-1] = _delivery(done, spans[-1])
            if done.timeline is not None:
                spans += _engine(done.timeline, done, parent=len(spans) - 1)
    return spans + [_try(one, done) for one in done.tries]


def _root(done: FinishedRequest) -> SpanFact:
    if done.tool is not None:
        attributes = _of_tool(done, done.tool)
        return SpanFact(_tool_span(done.tool), 0.0, done.duration_s, attributes, None, failed=done.failed)
    name = f"{done.asked.operation} {done.asked.model}".rstrip()  # moderation needs no model
    attributes = {**_request(done), **_response(done), **_content(done.content)}
    return SpanFact(name, 0.0, done.duration_s, attributes, None, failed=done.failed)


def _tool_span(tool: ToolCallRecord) -> str:
    return f"{semconv.CALL_TOOL} {tool.tool}"


def _of_tool(done: FinishedRequest, tool: ToolCallRecord) -> dict[str, Value]:
    """Return the attributes of the call as it came from an agent, by the conventions for MCP."""
    found: dict[str, Value] = {
        semconv.MCP_METHOD: semconv.CALL_TOOL,
        semconv.OPERATION_NAME: semconv.OPERATION_TOOL,
        semconv.TOOL_NAME: tool.tool,
        semconv.MCP_SERVER: tool.server,
        semconv.MCP_PROTOCOL: tool.protocol,
        semconv.JSONRPC_REQUEST_ID: tool.request_id,
        semconv.RUN: tool.run,
        semconv.TENANT: done.caller.tenant,
        semconv.POLICY: done.policy,
        semconv.RAILS: done.rails,
        semconv.NOT_ENFORCED: done.not_enforced,
        semconv.ERROR_TYPE: done.error or "",
    }
    return {name: value for name, value in found.items() if value}


def _sent(tool: ToolCallRecord, decision: Decision) -> SpanFact:
    """Return the span of the call as it went on to the server."""
    attributes: dict[str, Value] = {
        semconv.MCP_METHOD: semconv.CALL_TOOL,
        semconv.OPERATION_NAME: semconv.OPERATION_TOOL,
        semconv.TOOL_NAME: tool.tool,
        semconv.MCP_SERVER: tool.server,
        semconv.STAGE_OUTCOME: decision.outcome,
    }
    if protocol := decision.detail.get("protocol"):
        attributes[semconv.MCP_PROTOCOL] = str(protocol)
    if decision.outcome != "called":
        attributes[semconv.ERROR_TYPE] = decision.outcome
    ended_s = decision.began_s + decision.duration_s
    return SpanFact(_tool_span(tool), decision.began_s, ended_s, attributes, failed=decision.outcome != "called")


def _request(done: FinishedRequest) -> dict[str, Value]:
    asked = done.asked
    found: dict[str, Value | None] = {
        semconv.OPERATION_NAME: asked.operation,
        semconv.PROVIDER_NAME: semconv.PROVIDER,
        semconv.REQUEST_MODEL: asked.model or None,
        semconv.RESPONSE_ID: asked.id,
    }
    if asked.operation in ANSWERING:
        found |= _sampled(asked)
    return {name: value for name, value in found.items() if value is not None}


def _sampled(asked: RequestParameters) -> dict[str, Value | None]:
    """Return the sampling options that the request named, where an answer is generated."""
    sampling = asked.sampling
    return {
        semconv.REQUEST_STREAM: asked.stream,
        semconv.REQUEST_CHOICE_COUNT: asked.n if asked.n != 1 else None,
        semconv.REQUEST_SEED: sampling.seed,
        semconv.REQUEST_MAX_TOKENS: sampling.max_tokens,
        semconv.REQUEST_TEMPERATURE: sampling.temperature,
        semconv.REQUEST_TOP_P: sampling.top_p,
        semconv.REQUEST_TOP_K: sampling.top_k,
        semconv.REQUEST_FREQUENCY_PENALTY: sampling.frequency_penalty or None,
        semconv.REQUEST_PRESENCE_PENALTY: sampling.presence_penalty or None,
        semconv.OUTPUT_TYPE: asked.output,
    }


def _response(done: FinishedRequest) -> dict[str, Value]:
    attributes: dict[str, Value] = {
        semconv.TENANT: done.caller.tenant,
        semconv.POLICY: done.policy,
        semconv.CACHE_HIT: done.cached,
        semconv.USAGE_INPUT_TOKENS: done.usage.prompt_tokens,
    }
    if done.asked.operation in ANSWERING:
        attributes |= {
            semconv.USAGE_OUTPUT_TOKENS: done.usage.completion_tokens,
            semconv.USAGE_CACHE_READ_INPUT_TOKENS: done.usage.cached_tokens,
        }
        if reasons := (LEFT,) if done.error == LEFT else done.finish_reasons:
            attributes[semconv.RESPONSE_FINISH_REASONS] = reasons
    versions: dict[str, Value] = {
        semconv.MODEL_VERSION: done.version,
        semconv.TEMPLATE_VERSION: done.template,
        semconv.RAILS: done.rails,
        semconv.RAILS_VERSION: done.rails_version,
    }
    attributes |= {name: value for name, value in versions.items() if value}
    if done.not_enforced:
        attributes[semconv.NOT_ENFORCED] = done.not_enforced
    if done.review is not None:
        attributes[semconv.REVIEW_ID] = done.review
    if done.model:
        attributes[semconv.RESPONSE_MODEL] = done.model
    if done.first_s is not None:
        attributes[semconv.RESPONSE_TIME_TO_FIRST_CHUNK] = done.first_s
    if done.timeline is not None and done.timeline.started_s is not None:
        attributes[semconv.LATENCY_IN_QUEUE] = done.timeline.started_s - done.timeline.queued_s
    if done.error not in (None, LEFT):
        attributes[semconv.ERROR_TYPE] = done.error
    return attributes


def _content(content: CapturedContent | None) -> dict[str, Value]:
    """Return content by the GenAI conventions, and again by OpenInference's names."""
    if content is None:
        return {}
    parts = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in content.messages]
    answers = [
        {"role": "assistant", "parts": [{"type": "text", "content": text}], "finish_reason": reason}
        for text, reason in content.answers
    ]
    return {
        semconv.INPUT_MESSAGES: json.dumps(parts, ensure_ascii=False),
        semconv.OUTPUT_MESSAGES: json.dumps(answers, ensure_ascii=False),
        semconv.INPUT_VALUE: content.messages[-1][1] if content.messages else "",
        semconv.OUTPUT_VALUE: content.answers[0][0] if content.answers else "",
    }


def _stage(decision: Decision) -> SpanFact:
    guard = decision.slot in GUARDS
    attributes: dict[str, Value] = {
        semconv.SPAN_KIND: "GUARDRAIL" if guard else "CHAIN",
        semconv.STAGE_SLOT: decision.slot,
        semconv.STAGE_NAME: decision.stage,
        semconv.STAGE_OUTCOME: decision.outcome,
    }
    if guard:
        attributes |= _guard(decision)
    elif decision.slot == "recall":
        attributes |= {semconv.CACHE_DETAIL[k]: v for k, v in decision.detail.items() if k in semconv.CACHE_DETAIL}
    elif decision.slot == "retrieve":
        attributes |= _retrieval(decision)
    elif decision.slot == "constrain":
        attributes[semconv.SCHEMA_KIND] = decision.outcome
    name = semconv.GUARDRAIL_SPAN.format(name=decision.stage) if guard else f"{decision.slot} {decision.stage}"
    return SpanFact(
        name, decision.began_s, decision.began_s + decision.duration_s, attributes, failed=decision.outcome == "failed"
    )


def _retrieval(decision: Decision) -> dict[str, Value]:
    """Return attributes by the GenAI conventions, and OpenInference's kinds; never a text or a source."""
    reranks = decision.stage == "rerank"
    found: dict[str, Value] = {semconv.SPAN_KIND: "RERANKER" if reranks else "RETRIEVER"}
    if not reranks:
        found |= {semconv.OPERATION_NAME: semconv.OPERATION_RETRIEVAL, semconv.DATA_SOURCE_ID: decision.stage}
    if isinstance(count := decision.detail.get("documents"), int):
        found[semconv.RETRIEVAL_DOCUMENTS] = count
    return found


def _guard(decision: Decision) -> dict[str, Value]:
    found: dict[str, Value] = {
        semconv.OPERATION_NAME: semconv.OPERATION_GUARDRAIL,
        semconv.GUARD_NAME: decision.stage,
        semconv.GUARD_VERDICT: decision.outcome,
        semconv.GUARD_TARGET: "input" if decision.slot == "screen" else "output",
    }
    detail = decision.detail
    if reason := detail.get("reason"):
        found[semconv.GUARD_REASON] = str(reason)
    if isinstance(score := detail.get("score"), float):
        found[semconv.GUARD_SCORE] = score
    if redacted := detail.get("redacted"):
        found[semconv.GUARD_REDACTED] = tuple(sorted(redacted))
    return found


def _delivery(done: FinishedRequest, span: SpanFact) -> SpanFact:
    """Return the span of delivery, with the longest holds of text as events."""
    longest = sorted(done.holds, key=lambda hold: hold.began_s - hold.ended_s)[:MAX_HOLD_EVENTS]
    events = tuple(
        SpanEvent(
            semconv.HOLD_EVENT,
            hold.began_s - done.began_s,
            {semconv.HOLD_SECONDS: hold.ended_s - hold.began_s, semconv.HOLD_CHARACTERS: hold.characters},
        )
        for hold in longest
    )
    return SpanFact(span.name, span.began_s, span.ended_s, span.attributes, span.parent, events, span.failed)


def _engine(line: Timeline, done: FinishedRequest, parent: int) -> Iterator[SpanFact]:
    """Yield the spans of queue wait, prefill and decode, as far as the generation got."""
    zero = done.began_s
    ended = line.ended_s if line.ended_s is not None else zero + done.duration_s
    yield _part("queue", line.queued_s - zero, (line.started_s or ended) - zero, parent)
    if line.started_s is None:
        return
    read: dict[str, Value] = {
        semconv.USAGE_INPUT_TOKENS: done.usage.prompt_tokens,
        semconv.USAGE_CACHE_READ_INPUT_TOKENS: done.usage.cached_tokens,
    }
    if line.forward:
        read[semconv.FORWARD] = line.forward
    yield _part("prefill", line.started_s - zero, (line.first_token_s or ended) - zero, parent, read)
    if line.first_token_s is not None:
        first = SpanEvent(semconv.FIRST_TOKEN_EVENT, line.first_token_s - zero)
        later = [SpanEvent(semconv.PREEMPTED_EVENT, at - zero) for at in line.preempted_s]
        later += [SpanEvent(semconv.REPETITION_EVENT, at - zero) for at in line.repetitions_s]
        yield _part("decode", first.at_s, ended - zero, parent, _decoded(line), (first, *later))


def _decoded(line: Timeline) -> dict[str, Value]:
    found: dict[str, Value] = {
        semconv.USAGE_OUTPUT_TOKENS: line.tokens,
        semconv.TOKENS_FORCED: line.forced,
        semconv.MASK_SECONDS: line.mask_s,
    }
    if line.drafted:
        found[semconv.ACCEPT_RATE] = line.accepted / line.drafted
    return found


def _try(one: Try, done: FinishedRequest) -> SpanFact:
    host, _, port = one.server.rpartition(":")
    attributes: dict[str, Value] = {
        semconv.SPAN_KIND: "CHAIN",
        semconv.STAGE_SLOT: "generate",
        semconv.OPERATION_NAME: done.asked.operation,
        semconv.SERVER_ADDRESS: host,
        semconv.SERVER_PORT: int(port),
        semconv.TRY_OUTCOME: one.outcome,
        semconv.RESEND_COUNT: one.number,
    }
    found = {
        semconv.TRY_CHOSEN_BY: one.chosen_by or None,
        semconv.STATUS_CODE: one.status,
        semconv.TRY_SAID: one.said or None,
    }
    attributes |= {name: value for name, value in found.items() if value is not None}
    if one.failed:
        attributes[semconv.ERROR_TYPE] = one.outcome
    ended_s = one.ended_s if one.ended_s is not None else done.began_s + done.duration_s
    return SpanFact(
        f"try {one.server}",
        one.began_s - done.began_s,
        max(one.began_s, ended_s) - done.began_s,
        attributes,
        failed=one.failed,
        span_id=one.span_id,
    )


def _part(
    name: str,
    began_s: float,
    ended_s: float,
    parent: int,
    attributes: Mapping[str, Value] | None = None,
    events: tuple[SpanEvent, ...] = (),
) -> SpanFact:
    kind: dict[str, Value] = {semconv.SPAN_KIND: "CHAIN", semconv.STAGE_SLOT: "generate"}
    return SpanFact(name, began_s, max(began_s, ended_s), {**kind, **(attributes or {})}, parent, events)
