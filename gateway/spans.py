"""What a request leaves behind while it runs: one span and one `Decision` for every stage, and the rule that a stage's
own failure closes the request (`StageFailed`), never opens it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as otel
from opentelemetry import trace

from gateway.exchange import Exchange
from gateway.telemetry import request_attributes, semconv
from plugins import Decision, Request, SlotName, SluicegateError, StageFailed

log = logging.getLogger("sluicegate.pipeline")


@dataclass(slots=True)
class Note:
    """What the stage being timed decided."""

    outcome: str = "ok"
    detail: dict[str, Any] = field(default_factory=dict)


class Spans:
    def __init__(self, tracer: trace.Tracer) -> None:
        self._tracer = tracer

    def begin(self, request: Request, parent: otel.Context | None) -> Exchange:
        span = self._tracer.start_span(
            f"{semconv.OPERATION_CHAT} {request.model}", context=parent, attributes=request_attributes(request)
        )
        return Exchange(request, span, trace.set_span_in_context(span, parent))

    @contextmanager
    def timed(self, exchange: Exchange, slot: SlotName, stage: str) -> Iterator[Note]:
        """Around one stage. Raises what the stage raised where it is ours, else `StageFailed`."""
        note = Note()
        name = semconv.GUARDRAIL_SPAN.format(name=stage) if slot == "screen" else f"{slot} {stage}"
        span = self._tracer.start_span(name, context=exchange.context, attributes={semconv.STAGE_SLOT: slot})
        started = time.perf_counter()
        try:
            yield note
        except (SluicegateError, asyncio.CancelledError) as error:
            note.outcome = error_code(error)
            raise
        except Exception as error:
            note.outcome = "failed"
            log.exception("stage %s of slot %s failed", stage, slot)
            raise StageFailed(slot, stage, type(error).__name__) from error
        finally:
            span.set_attribute(semconv.STAGE_NAME, stage)
            span.set_attribute(semconv.STAGE_OUTCOME, note.outcome)
            if slot == "recall" and span.is_recording():
                span.set_attributes({semconv.CACHE_DETAIL[name]: value for name, value in note.detail.items()})
            span.end()
            exchange.decisions.append(Decision(slot, stage, note.outcome, time.perf_counter() - started, note.detail))

    def delivered(self, exchange: Exchange, decisions: list[Decision], started_s: float) -> None:
        """The generation has ended, and with it the rails' work: their lines, and spans that began together."""
        usage = exchange.usage
        outcome = "replayed" if exchange.cached is not None else f"{usage.completion_tokens} tokens"
        detail = {
            "cached_tokens": usage.cached_tokens,
            "ended": {str(answer.index): answer.finish_reason for answer in exchange.answers},
        }
        seconds = time.perf_counter() - started_s
        for decision in (Decision("generate", "deliver", outcome, seconds, detail), *decisions):
            exchange.decisions.append(decision)
            self._past(exchange, decision)

    def finish(self, exchange: Exchange) -> None:
        span, usage = exchange.span, exchange.usage
        told: dict[str, Any] = {
            semconv.TENANT: exchange.caller.tenant,
            semconv.CACHE_HIT: exchange.cached is not None,
            semconv.USAGE_INPUT_TOKENS: usage.prompt_tokens,
            semconv.USAGE_OUTPUT_TOKENS: usage.completion_tokens,
            semconv.USAGE_CACHE_READ_INPUT_TOKENS: usage.cached_tokens,
            semconv.RESPONSE_FINISH_REASONS: [answer.finish_reason for answer in exchange.answers],
        }
        if exchange.model is not None:
            told[semconv.RESPONSE_MODEL] = exchange.model.name
        if exchange.first_delta_at is not None:
            told[semconv.RESPONSE_TIME_TO_FIRST_CHUNK] = exchange.first_delta_at - exchange.started_at
        if exchange.error is not None:
            told[semconv.ERROR_TYPE] = exchange.error
            span.set_status(trace.StatusCode.ERROR)
        span.set_attributes(told)
        span.end()

    def _past(self, exchange: Exchange, decision: Decision) -> None:
        """A span for work that is over: it ends now and is as long as the work took."""
        rail = decision.slot == "moderate"
        name = semconv.GUARDRAIL_SPAN.format(name=decision.stage) if rail else f"{decision.slot} {decision.stage}"
        end = time.time_ns()
        span = self._tracer.start_span(
            name, context=exchange.context, start_time=end - int(decision.duration_s * 1e9), attributes={}
        )
        span.set_attribute(semconv.STAGE_SLOT, decision.slot)
        span.set_attribute(semconv.STAGE_NAME, decision.stage)
        span.set_attribute(semconv.STAGE_OUTCOME, decision.outcome)
        if rail:
            span.set_attribute(semconv.GUARD_NAME, decision.stage)
            span.set_attribute(semconv.GUARD_VERDICT, decision.outcome)
        span.end(end)


def error_code(error: BaseException) -> str:
    if isinstance(error, SluicegateError):
        return error.code
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "cancelled"
    return "internal_error"
