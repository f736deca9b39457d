"""One row of the list of requests; it holds no content."""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Literal, get_args

from sluicegate.gateway.telemetry.finished_request import FinishedRequest
from sluicegate.gateway.telemetry.metrics import SUCCESS, Objectives
from sluicegate.gateway.telemetry.span_builder import GUARDS
from sluicegate.plugins.frozen import frozen_when_checked

Ending = Literal["answered", "refused", "rejected", "failed", "left"]
"""`refused`: by a rail, or held for a person; `rejected`: the caller's mistake; `failed`: ours, or another server's."""
ENDINGS: tuple[Ending, ...] = get_args(Ending)
REFUSED = ("content_filter", "pending_review")
LEFT = "cancelled"
MOST_TOKENS = 2**53 - 1
"""The largest number that both a column and JavaScript can hold; another server may report more."""

MOST_CHARS = 256

Verdict = tuple[str, str, str]
"""(slot, rail, verdict)."""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class RequestLine:
    """`at_s`: Unix seconds of its arrival. `met`: whether it kept the service level objectives; None: not counted."""

    id: str
    trace: str
    at_s: float
    model: str
    version: str
    tenant: str
    key: str
    team: str
    route: str
    feature: str
    outcome: Ending
    ended: str
    status: int
    output: str
    stream: bool
    cached: bool
    sampled: bool
    ms: float
    first_ms: float | None
    token_ms: float | None
    met: bool | None
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    cost_nanos: int


COLUMNS = tuple(field.name for field in fields(RequestLine))
values_of = attrgetter(*COLUMNS)
"""A line's values in the order of `COLUMNS`; `astuple` would copy each, at ten times the cost."""


def row_of(done: FinishedRequest, objectives: Objectives) -> RequestLine:
    """Return the line of a request. Texts are cut: callers choose some of them."""
    more, usage, outcome = done.particulars, done.usage, ending_of(done)
    first_s = done.first_s if done.first_s is not None or outcome != "left" else done.duration_s
    kept = (
        outcome == "answered" or outcome == "left",
        first_s is None or first_s <= objectives.first_s,
        more.token_s is None or more.token_s <= objectives.token_s,
        done.duration_s <= objectives.total_s,
    )
    return RequestLine(
        id=_text(done.asked.id),
        trace=f"{done.ids.trace_id:032x}",
        at_s=done.began_ns / 1e9,
        model=_text(done.model or done.asked.model),
        version=_text(done.version),
        tenant=_text(done.caller.tenant),
        key=_text(done.caller.key_id or ""),
        team=_text(done.caller.team or ""),
        route=_text(more.route),
        feature=_text(more.feature),
        outcome=outcome,
        ended=_text(done.error or ",".join(dict.fromkeys(done.finish_reasons)) or SUCCESS),
        status=more.failure.status if more.failure is not None else 200,
        output=done.asked.output,
        stream=done.asked.stream,
        cached=done.cached,
        sampled=done.ids.sampled,
        ms=done.duration_s * 1e3,
        first_ms=None if done.first_s is None else done.first_s * 1e3,
        token_ms=None if more.token_s is None else more.token_s * 1e3,
        met=None if done.by_caller else all(kept),
        prompt_tokens=_bounded(usage.prompt_tokens),
        cached_tokens=_bounded(usage.cached_tokens),
        completion_tokens=_bounded(usage.completion_tokens),
        cost_nanos=more.cost_nanos,
    )


def ending_of(done: FinishedRequest) -> Ending:
    if done.error in REFUSED or "content_filter" in done.finish_reasons:
        return "refused"
    if done.error is None:
        return "answered"
    if done.error == LEFT:
        return "left"
    return "rejected" if done.by_caller else "failed"


def verdicts_of(done: FinishedRequest) -> list[Verdict]:
    return [(said.slot, _text(said.stage), _text(said.outcome)) for said in done.decisions if said.slot in GUARDS]


def summary(row: RequestLine, verdicts: list[Verdict]) -> dict[str, Any]:
    """Return one line as JSON. What rails let pass is left out."""
    found: dict[str, Any] = dict(zip(COLUMNS, values_of(row), strict=True))
    return {**found, "key": row.key or None, "verdicts": [list(said) for said in verdicts if said[2] != "pass"]}


def _text(value: str) -> str:
    """Return a text of a length that a list can show, without halves of characters, which no store takes."""
    if value.isascii():
        return value if len(value) <= MOST_CHARS else value[:MOST_CHARS]
    cut = value[:MOST_CHARS]
    return cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")


def _bounded(tokens: Any) -> int:
    return min(max(0, tokens), MOST_TOKENS) if type(tokens) is int else 0
