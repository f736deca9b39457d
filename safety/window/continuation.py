"""Sessions for a text that goes on from one that its reader has, its *lead*: what a client sent to be continued.

Beside the sessions of the text alone, a window opens one of these for each rail. It reads the end of the lead first.
What lies in the lead is not reported; what begins there and ends behind it is, as if it began where the text does.

A session that has `after(lead) -> RailSession` makes its own. Not covered: a match whose beginning lies further back
than `LEAD` characters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sluicegate.plugins.contract import OutputRail, RailProperties, RailSession, Span, Verdict

LEAD = 4096
"""Characters of the lead that are read, fewer where a rail says how far it looks back."""
RESTARTS = 8
"""Blocks and escalations inside a lead that are passed over, one by one; a lead with more of them blocks."""


def continuing(rail: OutputRail, open_session: Callable[[], RailSession], lead: str) -> RailSession:
    """A session for what follows `lead`; offsets of its verdicts are of that. Raises what `open_session` raises."""
    lead = lead[-_reach(rail) :]
    session = open_session()
    own: Callable[[str], RailSession] | None = getattr(session, "after", None)
    return _Continued(session, open_session, lead) if own is None else own(lead)


def _reach(rail: OutputRail) -> int:
    """Characters before a text that can matter to it: held ones, and those looked back at."""
    told = getattr(rail, "properties", None)
    if not isinstance(told, RailProperties) or told.look_back is None or told.hold_back is None:
        return LEAD
    return max(1, min(LEAD, told.look_back + told.hold_back))


class _Continued:
    """Around a rail's usual session. Where that blocks or escalates within the lead only when it has read more, this is
    taken for what began there and ended behind it."""

    def __init__(self, session: RailSession, open_session: Callable[[], RailSession], lead: str) -> None:
        self._session = session
        self._open = open_session
        self._lead = lead
        self._base = -1  # the lead is not read yet
        self._blocked: str | None = None

    def prepare(self) -> None:
        """Read the lead, if that is not done."""
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
        cut: Callable[[], Verdict] | None = getattr(self._session, "cut", None)
        return self.close() if cut is None or self._blocked else self._moved(cut())

    def clears(self, text: str) -> bool:
        clears: Callable[[str], bool] | None = getattr(self._session, "clears", None)
        return clears is not None and self._base < 0 and clears(self._lead + text) is True

    def _moved(self, verdict: Verdict) -> Verdict:
        base = self._base
        at = None if verdict.escalate_at is None else max(0, verdict.escalate_at - base)
        return replace(
            verdict, clear_to=max(0, verdict.clear_to - base), redact=moved(verdict.redact, base), escalate_at=at
        )


def moved(spans: tuple[Span, ...], base: int) -> tuple[Span, ...]:
    """Those that end behind `base`, with offsets from there on."""
    return tuple(replace(s, start=max(0, s.start - base), end=s.end - base) for s in spans if s.end > base)
