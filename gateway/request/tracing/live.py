"""Requests under way: begun here, found by id while they run, and handed to the trace sink once they have ended."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping

from opentelemetry import context as otel

from sluicegate.gateway.request.context import Exchange, RequestOrigin
from sluicegate.gateway.request.stages import Stages
from sluicegate.gateway.telemetry import (
    CapturedContent,
    FinishedRequest,
    RequestAttributes,
    RequestParameters,
    TraceSink,
    semconv,
)
from sluicegate.plugins import Decision, Request, Timeline, Usage
from sluicegate.safety import LEAD

Capture = Callable[[Exchange], CapturedContent | None]
"""Returns the texts that a finished exchange may show, after the rails."""


class LiveRequests:
    """`capture` only where the operator opted in to content. `feature_of`: what part of the caller's product a request
    is for; `cost_of`: what a model's tokens cost, in billionths."""

    def __init__(
        self,
        sink: TraceSink,
        capture: Capture | None = None,
        feature_of: Callable[[Request], str] = lambda request: "",
        cost_of: Callable[[str, Usage], int] = lambda model, usage: 0,
    ) -> None:
        self._sink = sink
        self._feature_of = feature_of
        self._cost_of = cost_of
        self._capture = capture
        self._live: dict[str, Exchange] = {}

    @property
    def by_id(self) -> Mapping[str, Exchange]:
        """Return the requests that have begun and not ended, by id."""
        return self._live

    def begin(
        self,
        request: Request,
        parent: otel.Context | None,
        stages: Stages,
        *,
        route: str = "",
        approved: frozenset[str] = frozenset(),
        operation: str = "",
        waited_s: float = 0.0,
    ) -> Exchange:
        """Begin the trace of a request, before rails or templates change a word of it. `operation` is given where no
        answer is generated; `waited_s` are the seconds since the request arrived."""
        operation = operation or (semconv.OPERATION_TEXT if request.raw else semconv.OPERATION_CHAT)
        trace = self._sink.begin(operation, request.model, parent)
        lead, arrived_s = _lead_of(request), time.perf_counter() - waited_s
        entry = RequestOrigin(trace, stages, route, approved, lead, operation, request, arrived_s, waited_s)
        exchange = Exchange(entry, request)
        self._live[request.id] = exchange
        stages.rail_health.entered()
        return exchange

    def forget(self, exchange: Exchange) -> None:
        """Drop an exchange that was nobody's request. It leaves no trace."""
        self._live.pop(exchange.request.id, None)

    def finish(self, exchange: Exchange) -> None:
        self._live.pop(exchange.request.id, None)
        self._sink.hand_in(self._finished(exchange))

    def _finished(self, exchange: Exchange) -> FinishedRequest:
        entry, safety, request, usage = exchange.entry, exchange.safety, exchange.request, exchange.usage
        first = exchange.delivery.first_at
        return FinishedRequest(
            ids=entry.trace,
            asked=_asked(request, entry.operation),
            began_s=entry.started_at,
            began_ns=time.time_ns() - int((time.perf_counter() - entry.started_at) * 1e9),
            duration_s=exchange.duration_s,
            caller=exchange.caller,
            model=exchange.model.name if exchange.model else exchange.elsewhere,
            version=exchange.model.version if exchange.model else "",
            decisions=tuple(exchange.decisions),
            usage=usage,
            finish_reasons=tuple([answer.finish_reason for answer in exchange.answers]),
            first_s=None if first is None else first - entry.started_at,
            error=exchange.error,
            by_caller=exchange.by_caller,
            cached=exchange.cached is not None,
            timeline=self._timeline(exchange),
            tries=exchange.tries,
            holds=exchange.moderation.holds if exchange.moderation else (),
            content=self._capture(exchange) if self._capture else None,
            template=request.parts.version if request.parts is not None else "",
            rails=_rails(exchange),
            rails_version=entry.stages.fingerprint[:12] + safety.policy.fingerprint[:4],
            policy=safety.policy.name,
            not_enforced=tuple(safety.unenforced),
            tool=exchange.tool,
            review=exchange.review["id"] if exchange.review else None,
            particulars=self._particulars(exchange, usage),
        )

    def _particulars(self, exchange: Exchange, usage: Usage) -> RequestAttributes:
        request, gaps_s = exchange.request, exchange.delivery.gaps_s
        later = usage.completion_tokens - 1
        return RequestAttributes(
            route=exchange.entry.route,
            feature=self._feature_of(request),
            cost_nanos=self._cost_of(exchange.model.name if exchange.model else "", usage),
            token_s=sum(gaps_s) / later if gaps_s and later > 0 else None,
            failure=exchange.failure,
            constraint=request.constraint,
            tools=request.tools,
            request_bytes=request.nbytes,
        )

    def _timeline(self, exchange: Exchange) -> Timeline | None:
        """Return the timeline, without the texts of tokens, which are content, unless they may be shown."""
        line = exchange.timeline
        if line is None or not line.steps or (self._capture and not exchange.withholds_tokens):
            return line
        return dataclasses.replace(line, steps=[])


def add_delivery(exchange: Exchange, started_s: float) -> None:
    """Add the delivery of an answer to the decisions, once its generation has ended."""
    usage = exchange.usage
    outcome = "replayed" if exchange.cached is not None else f"{usage.completion_tokens} tokens"
    detail = {
        "cached_tokens": usage.cached_tokens,
        "ended": {str(answer.index): answer.finish_reason for answer in exchange.answers},
    }
    took, began = time.perf_counter() - started_s, started_s - exchange.entry.started_at
    exchange.decisions.append(Decision("generate", "deliver", outcome, took, detail, began))


def _lead_of(request: Request) -> str:
    """Return the end of the text that the answer continues, and the client joins it to; empty where there is none.

    A last message of the assistant counts even where the request does not ask to continue it: some servers do so
    unasked, and clients do it by hand with an answer that was cut short."""
    if not request.messages:
        return ""
    last = request.messages[-1]
    if request.raw or last.role == "assistant" or not request.add_generation_prompt:
        return last.content[-LEAD:]
    return ""


def _rails(exchange: Exchange) -> tuple[str, ...]:
    """Return the rails that the request met, where it came far enough to meet any."""
    return (
        *[f"screen {line.stage}" for line in exchange.decisions if line.slot == "screen"],
        *[f"moderate {name}" for name, _ in exchange.safety.output_rails],
    )


def _asked(request: Request, operation: str) -> RequestParameters:
    structured = request.constraint is not None and request.constraint.kind.startswith("json")
    output = "json" if structured else "text"
    return RequestParameters(request.id, request.model, request.stream, request.n, request.sampling, output, operation)
