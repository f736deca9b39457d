"""Parts of an answer besides its text, in every wire format: usage, log probabilities, what the stages decided."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate.gateway.answer.delta import Delta
from sluicegate.gateway.answer.long_numbers import at_most_digits
from sluicegate.gateway.answer.partial import PartialValues
from sluicegate.gateway.rails.verdicts import category_of
from sluicegate.gateway.request.context import Exchange
from sluicegate.gateway.request.tracing.cited import cited
from sluicegate.gateway.request.tracing.confidence import confidence_of
from sluicegate.gateway.request.tracing.explain import explained
from sluicegate.plugins import ClosedBy, Decision, TokenLogprob

ENDED_EARLY: Mapping[str, ClosedBy] = {"closed_on_length": "length", "ended_by_repetition": "repetition"}
"""By field of `sluicegate`: why the choices that it lists were ended before the model did."""


def usage(exchange: Exchange) -> dict[str, Any]:
    counted = exchange.reported_usage
    found: dict[str, Any] = {
        "prompt_tokens": counted.prompt_tokens,
        "completion_tokens": counted.completion_tokens,
        "total_tokens": counted.prompt_tokens + counted.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": counted.cached_tokens},
    }
    if exchange.request.reasoning:
        found["completion_tokens_details"] = {"reasoning_tokens": exchange.thought_tokens}
    return found


SCORES = frozenset(("score", "scores"))
"""Details that do not leave: with a score of each try anyone could find the words that just pass a check."""


def stages_of(decisions: Iterable[Decision]) -> list[dict[str, Any]]:
    """Return what each stage decided and how long it took, for `explain`. Scores and the operator's reasons stay here:
    of a reason its category leaves."""
    return [
        {
            "slot": d.slot,
            "stage": d.stage,
            "outcome": d.outcome,
            "at_ms": round(d.began_s * 1e3, 3),
            "ms": round(d.duration_s * 1e3, 3),
            **({"detail": detail} if (detail := _shown(d.detail)) else {}),
        }
        for d in decisions
    ]


def _shown(detail: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in detail.items() if name not in SCORES}
    if isinstance(reason := found.get("reason"), str):
        found["reason"] = category_of(reason)
    return found


def logprobs(entries: tuple[TokenLogprob, ...]) -> dict[str, Any] | None:
    return {"content": token_logprobs(entries), "refusal": None} if entries else None


def token_logprobs(entries: Iterable[TokenLogprob]) -> list[dict[str, Any]]:
    return [
        {
            "token": e.token,
            "bytes": list(e.data),
            "logprob": finite(e.logprob),
            "top_logprobs": [
                {"token": token, "bytes": list(data), "logprob": finite(logprob)} for _, token, data, logprob in e.top
            ],
        }
        for e in entries
    ]


def finite(logprob: float) -> float:
    """Replace minus infinity, which JSON has not, by -9999, the API's convention for "practically never"."""
    return max(logprob, -9999.0)


def numbers_at_bound(exchange: Exchange) -> list[int]:
    """Return the choices that hold a number of as many digits as were allowed."""
    return [answer.index for answer in exchange.answers if at_most_digits(exchange.request, answer)]


def extension(exchange: Exchange, *, explain: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if exchange.ignored:
        found["ignored"] = list(exchange.ignored)
    if exchange.not_enforced:
        found["not_enforced"] = list(exchange.not_enforced)
    for name, cause in ENDED_EARLY.items():
        if early := [answer.index for answer in exchange.answers if answer.closed == cause]:
            found[name] = early
    if long := numbers_at_bound(exchange):
        found["numbers_at_bound"] = long
    if exchange.cached is not None:
        found["cached"] = True
    if exchange.review:
        found["review"] = dict(exchange.review)
    found |= cited(exchange)
    if exchange.request.confidence and exchange.answers:
        found |= confidence_of(exchange)
    if explain:
        found["stages"] = stages_of(exchange.decisions)
        found.setdefault("cached", False)
        found |= explained(exchange)
    return found


def extended(body: dict[str, Any], exchange: Exchange, *, explain: bool) -> dict[str, Any]:
    """Return `body` with the field `sluicegate`, if there is anything to say in it."""
    extra = extension(exchange, explain=explain)
    return {**body, "sluicegate": extra} if extra else body


def delta_notes(exchange: Exchange, partial: PartialValues | None, delta: Delta) -> dict[str, Any]:
    """Return where a held answer can be fetched after review, and which JSON values are complete."""
    notes: dict[str, Any] = {}
    if delta.finish_reason is not None and exchange.review:
        notes["review"] = dict(exchange.review)
    if partial is not None and (complete := partial.feed(delta)):
        notes["partial"] = complete
    return notes


def late_notes(exchange: Exchange, reported: tuple[str, ...], *, explain: bool) -> dict[str, Any]:
    """Return the notes at the end of a stream that its beginning could not have. `reported`: unenforced constraints
    that the beginning named."""
    ended = any(answer.closed for answer in exchange.answers) or bool(numbers_at_bound(exchange))
    asked = explain or exchange.request.confidence
    late = asked or ended or bool(exchange.citations) or exchange.not_enforced != reported
    return extension(exchange, explain=explain) if late else {}
