"""What a request leaves behind while it runs: one `Decision` for every stage, and the rule that a stage's own failure
closes the request (`StageFailed`), never opens it. When it has ended, all of it is handed in as one `Finished`."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry import context as otel

from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.telemetry import Asked, Content, Finished, TraceSink
from sluicegate.plugins import Decision, Request, SlotName, SluicegateError, StageFailed, Timeline

log = logging.getLogger("sluicegate.pipeline")
Capture = Callable[[Exchange], Content | None]
"""What a finished exchange may show of its texts, after the rails."""


@dataclass(slots=True)
class Note:
    """What the stage being timed decided."""

    outcome: str = "ok"
    detail: dict[str, Any] = field(default_factory=dict)


class Timed:
    """One stage at work: its `Decision` is kept however it ends. By hand, since there are a dozen to a request."""

    __slots__ = ("_exchange", "_note", "_slot", "_stage", "_started")

    def __init__(self, exchange: Exchange, slot: SlotName, stage: str) -> None:
        self._exchange, self._slot, self._stage = exchange, slot, stage
        self._note = Note()
        self._started = 0.0

    def __enter__(self) -> Note:
        self._started = time.perf_counter()
        return self._note

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        note = self._note
        broke = error is not None and self._broke(error)
        took, began = time.perf_counter() - self._started, self._started - self._exchange.started_at
        decision = Decision(self._slot, self._stage, note.outcome, took, note.detail, began)
        self._exchange.decisions.append(decision)
        if broke:
            raise StageFailed(self._slot, self._stage, type(error).__name__) from error

    def _broke(self, error: BaseException) -> bool:
        """Whether this is a failure of the stage itself: it closes the request."""
        if isinstance(error, SluicegateError | asyncio.CancelledError):
            if self._note.outcome == "ok":
                self._note.outcome = error_code(error)
            return False
        if isinstance(error, GeneratorExit):
            return False  # SystemExit and the like, which a plug-in may raise, would end the whole gateway
        self._note.outcome = "failed"
        log.error("stage %s of slot %s failed", self._stage, self._slot, exc_info=error)
        return True


class Spans:
    """`capture` only where the operator opted in to content."""

    def __init__(self, trace_sink: TraceSink, capture: Capture | None = None) -> None:
        self._sink = trace_sink
        self._capture = capture
        self._live: dict[str, Exchange] = {}

    @property
    def live(self) -> Mapping[str, Exchange]:
        """Requests that have begun and not ended, by id."""
        return self._live

    def begin(self, request: Request, parent: otel.Context | None) -> Exchange:
        exchange = Exchange(request, self._sink.begin(request.model, parent))
        self._live[request.id] = exchange
        return exchange

    def timed(self, exchange: Exchange, slot: SlotName, stage: str) -> Timed:
        """Around one stage. Raises what the stage raised where it is ours, else `StageFailed`."""
        return Timed(exchange, slot, stage)

    def delivered(self, exchange: Exchange, decisions: list[Decision], started_s: float) -> None:
        """The generation has ended, and with it the rails' work: their lines, which began together."""
        usage = exchange.usage
        outcome = "replayed" if exchange.cached is not None else f"{usage.completion_tokens} tokens"
        detail = {
            "cached_tokens": usage.cached_tokens,
            "ended": {str(answer.index): answer.finish_reason for answer in exchange.answers},
        }
        took, began = time.perf_counter() - started_s, started_s - exchange.started_at
        exchange.decisions.append(Decision("generate", "deliver", outcome, took, detail, began))
        exchange.decisions += [
            Decision(said.slot, said.stage, said.outcome, said.duration_s, said.detail, began) for said in decisions
        ]

    def finish(self, exchange: Exchange) -> None:
        self._live.pop(exchange.request.id, None)
        self._sink.hand_in(self._finished(exchange))

    def _finished(self, exchange: Exchange) -> Finished:
        duration_s = time.perf_counter() - exchange.started_at
        first = exchange.first_delta_at
        return Finished(
            ids=exchange.trace,
            asked=_asked(exchange.request),
            began_s=exchange.started_at,
            began_ns=time.time_ns() - int(duration_s * 1e9),
            duration_s=duration_s,
            caller=exchange.caller,
            model=exchange.model.name if exchange.model else "",
            version=exchange.model.version if exchange.model else "",
            decisions=tuple(exchange.decisions),
            usage=exchange.usage,
            finish_reasons=tuple([answer.finish_reason for answer in exchange.answers]),
            first_s=None if first is None else first - exchange.started_at,
            error=exchange.error,
            by_caller=exchange.by_caller,
            cached=exchange.cached is not None,
            timeline=self._timeline(exchange),
            holds=exchange.moderation.holds if exchange.moderation else (),
            content=self._capture(exchange) if self._capture else None,
            template=exchange.request.parts.version if exchange.request.parts is not None else "",
            rails=_rails(exchange),
            rails_version=(exchange.pinned.fingerprint[:12] + exchange.policy.fingerprint[:4])
            if exchange.stages
            else "",
            policy=exchange.policy.name,
            not_enforced=tuple(exchange.unenforced),
            review=exchange.review["id"] if exchange.review else None,
        )

    def _timeline(self, exchange: Exchange) -> Timeline | None:
        """Its description of tokens is content."""
        line = exchange.timeline
        if line is None or not line.steps or (self._capture and not exchange.withholds_tokens):
            return line
        return dataclasses.replace(line, steps=[])


def _rails(exchange: Exchange) -> tuple[str, ...]:
    """Of a request that came far enough to meet any."""
    return (
        *[f"screen {line.stage}" for line in exchange.decisions if line.slot == "screen"],
        *[f"moderate {name}" for name, _ in exchange.rails],
    )


def _asked(request: Request) -> Asked:
    structured = request.constraint is not None and request.constraint.kind.startswith("json")
    output = "json" if structured else "text"
    return Asked(request.id, request.model, request.stream, request.n, request.sampling, output)


def error_code(error: BaseException) -> str:
    if isinstance(error, SluicegateError):
        return error.code
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "cancelled"
    return "internal_error"
