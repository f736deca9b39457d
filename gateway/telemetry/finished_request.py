"""The facts of an ended request, from which traces and the console are made.

They hold no prompt, answer or key, unless the operator opted in: then `content` holds the text after the rails.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from sluicegate.gateway.telemetry import semconv
from sluicegate.gateway.telemetry.tracing import TraceIds
from sluicegate.gateway.telemetry.tries import Try
from sluicegate.plugins import Caller, Constraint, Decision, Sampling, Timeline, Tool, Usage
from sluicegate.plugins.frozen import frozen_when_checked

LEFT = "cancelled"
"""How a request ends whose client disconnected."""


@dataclass(frozen=True, slots=True)
class HoldRecord:
    """One wait of a choice's text for a rail. Seconds are as `time.perf_counter` reads; `characters`: the most held at
    once."""

    choice: int
    began_s: float
    ended_s: float
    characters: int


@dataclass(frozen=True, slots=True)
class CapturedContent:
    """Messages as (role, text) and answers as (text, finish_reason), after the rails."""

    messages: tuple[tuple[str, str], ...]
    answers: tuple[tuple[str, str], ...]
    asked: tuple[tuple[str, str], ...] = ()
    """Schema and tools after the rails, each as (kind, text)."""
    withheld: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Messages that an input rail refused, as it saw them: only for those who may review; never exported."""


@dataclass(frozen=True, slots=True)
class ReportedError:
    """The error that the caller got, and its cause, which the caller did not get. Neither holds content."""

    status: int
    message: str
    cause: str = ""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class RequestAttributes:
    """Attributes by which an operator searches and explains a request; `cost_nanos` is in billionths of the
    currency."""

    route: str = ""
    feature: str = ""
    cost_nanos: int = 0
    token_s: float | None = None
    """Average seconds per token after the first."""
    failure: ReportedError | None = None
    constraint: Constraint | None = field(default=None, repr=False)
    tools: tuple[Tool, ...] = field(default=(), repr=False)
    request_bytes: int = 0
    """Size of its body, which bounds what is kept of it; 0 = small."""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class RequestParameters:
    """The parameters of the request, without content."""

    id: str
    model: str
    stream: bool
    n: int
    sampling: Sampling
    output: str
    """`text` or `json`."""
    operation: str = semconv.OPERATION_CHAT
    """The requested operation, by OpenTelemetry's name."""


@dataclass(frozen=True, slots=True)
class ToolCallRecord:
    """A call of a tool of an MCP server. `request_id`: of JSON-RPC; `run`: of the agent, as it names it."""

    server: str
    tool: str
    request_id: str = ""
    protocol: str = ""
    run: str = ""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """One request that has ended. `began_s` is as `time.perf_counter` reads, `began_ns` the same moment in Unix
    nanoseconds; decisions and durations are in seconds from there."""

    ids: TraceIds
    asked: RequestParameters
    began_s: float
    began_ns: int
    duration_s: float
    caller: Caller
    model: str
    decisions: tuple[Decision, ...]
    usage: Usage
    finish_reasons: tuple[str, ...]
    first_s: float | None = None
    """Seconds to the first text that was sent, after rails."""
    error: str | None = None
    by_caller: bool = False
    """Whether the caller can correct `error`."""
    cached: bool = False
    timeline: Timeline | None = None
    tries: tuple[Try, ...] = ()
    """Attempts at all models that were asked."""
    holds: tuple[HoldRecord, ...] = ()
    content: CapturedContent | None = None
    version: str = ""
    """Version of the model."""
    template: str = ""
    """Template of the prompt, with its version; "" = none."""
    rails: tuple[str, ...] = ()
    """The rails that it passed, as `slot name`."""
    rails_version: str = ""
    policy: str = ""
    not_enforced: tuple[str, ...] = ()
    """Rails that did not act, and why."""
    tool: ToolCallRecord | None = None
    """The tool that was called, where no model was."""
    review: str | None = None
    """Id of the review of a part of it."""
    particulars: RequestAttributes = RequestAttributes()

    @property
    def failed(self) -> bool:
        """Return whether the gateway failed. Neither a caller's mistake nor its disconnecting is a server error
        (OpenTelemetry's conventions for HTTP servers)."""
        return self.error not in (None, LEFT) and not self.by_caller


WAITING_BYTES = 64 << 20
"""Most bytes of the bodies of requests that wait in memory, to be sent or written, or to be looked at: each holds its
schema and tools, and with content its texts. 500 of 8 MB took 4 to 12 GB."""


def fits_beside(done: FinishedRequest, waiting: Collection[FinishedRequest]) -> bool:
    """Return whether `done` may wait beside the others. Other threads may take from `waiting` meanwhile."""
    size = done.particulars.request_bytes
    return not size or sum([one.particulars.request_bytes for one in tuple(waiting)]) + size <= WAITING_BYTES
