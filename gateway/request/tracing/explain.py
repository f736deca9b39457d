"""Answer `explain`: where a request's milliseconds went, and how each token of the answer came about."""

from __future__ import annotations

from typing import Any

from sluicegate.gateway.request.context import Exchange
from sluicegate.plugins import Timeline


def explained(exchange: Exchange) -> dict[str, Any]:
    """Return `engine` and `tokens`, as far as the generator reports them; an answer of the cache has neither."""
    line = exchange.timeline
    if line is None:
        return {}
    found: dict[str, Any] = {"engine": engine_times(line)}
    if exchange.withholds_tokens:
        return {**found, "tokens_withheld": "a rail changed or stopped the answer"}
    return {**found, "tokens": token_steps(line)} if line.steps else found


def engine_times(line: Timeline) -> dict[str, Any]:
    """Return the milliseconds of each part that was reached, and counts of tokens and interruptions."""
    return {
        "queue_ms": _between(line.queued_s, line.started_s),
        "prefill_ms": _between(line.started_s, line.first_token_s),
        "decode_ms": _between(line.first_token_s, line.ended_s),
        "mask_ms": round(line.mask_s * 1e3, 3),
        "tokens": line.tokens,
        "forced_tokens": line.forced,
        "drafted_tokens": line.drafted,
        "accepted_tokens": line.accepted,
        "preemptions": len(line.preempted_s),
        **({"repetitions": len(line.repetitions_s)} if line.repetitions_s else {}),
    }


def token_steps(line: Timeline) -> list[dict[str, Any]]:
    """Return tokens in the order they came. `masked` is the share of the vocabulary that the grammar refused there."""
    return [
        {
            "choice": step.choice,
            "token": step.text,
            "ms": round((step.at_s - line.queued_s) * 1e3, 3),
            "forced": step.forced,
            "masked": None if step.masked_share is None else round(step.masked_share, 6),
            "logprob": None if step.logprob is None else max(step.logprob, -9999.0),
        }
        for step in line.steps
    ]


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else round((end - start) * 1e3, 3)
