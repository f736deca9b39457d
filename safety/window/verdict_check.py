"""Validate the verdicts of output rails, which may be third-party plug-ins."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from sluicegate.plugins import RailSession, Span, Verdict

MAX_REASON, MAX_CATEGORY = 1_000, 64
"""Most characters of a reason, and of the category of a score; longer ones are cut."""


class BadVerdict(Exception):
    """Raised when a rail's verdict breaks the contract; the message says how."""


def check_verdict(verdict: Verdict, before: int, fed: int, *, closing: bool, redacts: bool = True) -> Verdict:
    """Return `verdict` with its reasons cut to `MAX_REASON` characters. Raises `BadVerdict` unless it is valid after
    `fed` characters and an earlier `clear_to` of `before`. `closing`: at the end of the text; `redacts`: the rail may
    replace text."""
    _check_kinds(verdict)
    if not before <= verdict.clear_to <= fed:
        raise BadVerdict(f"clear_to is {verdict.clear_to}, must be from {before} to {fed}")
    if closing and verdict.block is None and verdict.clear_to != fed:
        raise BadVerdict(f"clear_to is {verdict.clear_to} at the end, must be {fed} or block")
    if verdict.redact and not redacts:
        raise BadVerdict("a rail that judges whole texts cannot redact; block or escalate")
    at = before
    for span in verdict.redact:
        if not at <= span.start < span.end <= fed or span.start < verdict.clear_to < span.end:
            raise BadVerdict(f"span {span.start}-{span.end} is out of order, out of the text or across clear_to")
        at = span.end
    if verdict.escalate_at is not None and not before <= verdict.escalate_at <= fed:
        raise BadVerdict(f"escalate_at is {verdict.escalate_at}, must be from {before} to {fed}")
    return _cut(verdict)


def _cut(verdict: Verdict) -> Verdict:
    """Return `verdict` with what it says of its reasons in the length that records and answers have room for."""
    said = (verdict.block or "", verdict.escalate or "", *(span.reason for span in verdict.redact))
    if max(map(len, said)) <= MAX_REASON and all(len(category) <= MAX_CATEGORY for category, _ in verdict.scores):
        return verdict
    return replace(
        verdict,
        block=None if verdict.block is None else verdict.block[:MAX_REASON],
        escalate=None if verdict.escalate is None else verdict.escalate[:MAX_REASON],
        redact=tuple([replace(span, reason=span.reason[:MAX_REASON]) for span in verdict.redact]),
        scores=tuple([(category[:MAX_CATEGORY], score) for category, score in verdict.scores]),
    )


def is_plain(verdict: Any) -> bool:
    """Return whether a verdict sets `clear_to` only, as nearly all do. For such a verdict a check of `clear_to` can
    replace the slower `check_verdict`."""
    return (
        type(verdict) is Verdict
        and type(verdict.clear_to) is int
        and verdict.redact == () == verdict.scores
        and verdict.block is None
        and verdict.escalate is None
        and verdict.escalate_at is None
    )


class CheckedSession:
    """Validates the verdicts of a session: its methods raise `BadVerdict`, or the rail's own errors."""

    def __init__(self, session: RailSession) -> None:
        self._session = session
        self._fed = self._clear_to = 0

    def feed(self, text: str) -> Verdict:
        self._fed += len(text)
        return self._checked(self._session.feed(text), closing=False)

    def close(self) -> Verdict:
        return self._checked(self._session.close(), closing=True)

    def _checked(self, verdict: Verdict, *, closing: bool) -> Verdict:
        checked = check_verdict(verdict, self._clear_to, self._fed, closing=closing)
        self._clear_to = checked.clear_to
        return checked


def _check_kinds(verdict: Any) -> None:
    """Check the types of all fields: a wrong one would fail far from here."""
    if not isinstance(verdict, Verdict):
        raise BadVerdict(f"the answer is of type {type(verdict).__name__}, must be a Verdict")
    _check_offset("clear_to", verdict.clear_to)
    if verdict.escalate_at is not None:
        _check_offset("escalate_at", verdict.escalate_at)
    for name, reason in (("block", verdict.block), ("escalate", verdict.escalate)):
        if reason is not None:
            _check_text(name, reason)
    if verdict.redact:
        _check_spans(verdict.redact)
    if verdict.scores:
        _check_scores(verdict.scores)


def _check_offset(name: str, place: Any) -> None:
    if not isinstance(place, int):
        raise BadVerdict(f"{name} is {place!r:.40}, must be a whole number of characters (int)")


def _check_text(name: str, text: Any) -> None:
    if not isinstance(text, str):
        raise BadVerdict(f"{name} is of type {type(text).__name__}, must be a text (str)")
    if not is_whole_text(text):
        raise BadVerdict(f"{name} holds half of a surrogate pair, which no encoding can send")


def is_whole_text(text: str) -> bool:
    """Return whether a text can be encoded: one with half of a surrogate pair fails wherever it is sent or stored."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _check_spans(spans: Any) -> None:
    if not isinstance(spans, tuple) or not all(isinstance(span, Span) for span in spans):
        raise BadVerdict("redact must be a tuple of Span")
    for span in spans:
        _check_offset("start of a span", span.start)
        _check_offset("end of a span", span.end)
        _check_text("reason of a span", span.reason)
        _check_text("replacement of a span", span.replacement)


def _check_scores(scores: Any) -> None:
    if not isinstance(scores, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in scores):
        raise BadVerdict("scores must be a tuple of pairs (category, score)")
    for category, score in scores:
        _check_text("category of a score", category)
        if not isinstance(score, int | float):
            raise BadVerdict(f"the score of {category:.40} is of type {type(score).__name__}, must be a number")
        if not math.isfinite(score):
            raise BadVerdict(f"the score of {category:.40} is {score}, must be a finite number")
