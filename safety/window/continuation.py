"""Open sessions for a text that continues a *lead*: the text that a client sent to be continued.

A window opens one of these per rail beside the sessions that read the text alone. It reads the end of the lead first. A
match within the lead is not reported; a match from the lead into the text is, as if it began where the text does.

A `ContinuableSession` makes its own such session. Not covered: a match that begins more than `LEAD` characters back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

from sluicegate.plugins import (
    ClearingSession,
    ContinuableSession,
    CuttableSession,
    OutputRail,
    RailSession,
    Span,
    Verdict,
    offers,
    properties_of,
)

LEAD = 4096
"""Characters of the lead that are read; fewer if a rail declares how far it looks back."""
RESTARTS = 8
"""Blocks and escalations inside a lead that are skipped, one by one; a lead with more of them blocks."""


def continuing(rail: OutputRail, open_session: Callable[[], RailSession], lead: str) -> RailSession:
    """Return a session for the text after `lead`; its verdicts have offsets in that text. Raises what `open_session`
    raises."""
    lead = lead[-_reach(rail) :]
    session = open_session()
    return (
        session.after(lead) if offers(session, ContinuableSession) else _ContinuedSession(session, open_session, lead)
    )


def _reach(rail: OutputRail) -> int:
    """Return how many characters before a text can change a verdict on it: the rail's look-back and hold-back."""
    declared = properties_of(rail)
    if declared is None or declared.look_back is None or declared.hold_back is None:
        return LEAD
    return max(1, min(LEAD, declared.look_back + declared.hold_back))


class LeadSession(ABC):
    """A session that reads a lead before its text."""

    @abstractmethod
    def prepare(self) -> None:
        """Read the lead, unless that was done. Raises what the rail's session raises."""

    @abstractmethod
    def feed(self, text: str) -> Verdict: ...

    @abstractmethod
    def close(self) -> Verdict: ...


class _ContinuedSession(LeadSession):
    """Wraps a rail's usual session. A block or escalation inside the lead that comes only after more text was read
    counts as a match from the lead into the text."""

    def __init__(self, session: RailSession, open_session: Callable[[], RailSession], lead: str) -> None:
        self._session = session
        self._open = open_session
        self._lead = lead
        self._base = -1  # the lead is not read yet
        self._blocked: str | None = None

    def prepare(self) -> None:
        if self._base >= 0:
            return
        lead = self._lead
        for _ in range(RESTARTS):
            verdict = self._session.feed(lead)
            self._base, self._blocked = len(lead), verdict.block or verdict.escalate
            if not self._blocked:
                return
            at = verdict.clear_to if verdict.block else verdict.escalate_at or 0
            lead = lead[max(0, at) + 1 :]
            self._session = self._open()

    def feed(self, text: str) -> Verdict:
        self.prepare()
        return Verdict(0, block=self._blocked) if self._blocked else self._moved(self._session.feed(text))

    def close(self) -> Verdict:
        self.prepare()
        return Verdict(0, block=self._blocked) if self._blocked else self._moved(self._session.close())

    def cut(self) -> Verdict:
        self.prepare()
        if self._blocked or not offers(self._session, CuttableSession):
            return self.close()
        return self._moved(self._session.cut())

    def clears(self, text: str) -> bool:
        session = self._session
        return self._base < 0 and offers(session, ClearingSession) and session.clears(self._lead + text) is True

    def _moved(self, verdict: Verdict) -> Verdict:
        base = self._base
        at = None if verdict.escalate_at is None else max(0, verdict.escalate_at - base)
        return replace(
            verdict, clear_to=max(0, verdict.clear_to - base), redact=moved(verdict.redact, base), escalate_at=at
        )


def moved(spans: tuple[Span, ...], base: int) -> tuple[Span, ...]:
    """Return the spans that end after `base`, with offsets relative to it."""
    return tuple(replace(s, start=max(0, s.start - base), end=s.end - base) for s in spans if s.end > base)
