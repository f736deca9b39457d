"""Check the border between a lead and a text whose own windows read it decoded, as JSON.

Not covered: a rule for matches in the text alone that looks at characters of the lead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sluicegate.plugins import Caller, Channel, OutputRail, RailSession, Request, Verdict
from sluicegate.safety.rail_policy import WindowLimits
from sluicegate.safety.window.continuation import LeadSession
from sluicegate.safety.window.holdback import HoldbackWindow
from sluicegate.safety.window.released import Redaction


class LeadBorderWindow(HoldbackWindow):
    """Holds text only while a match that begins in the lead may still end in it. Such a match blocks or escalates; it
    is never redacted. Done as soon as nothing is held."""

    def __init__(
        self,
        rails: Sequence[OutputRail],
        request: Request,
        caller: Caller,
        channel: Channel,
        limits: WindowLimits,
        lead: str,
    ) -> None:
        super().__init__(rails, request, caller, channel, limits, lead)
        self._active = self._behind

    @property
    def is_over(self) -> bool:
        return self._fed > 0 and not self.held

    def _opened_behind(self, rail: OutputRail, open_alone: Callable[[], RailSession], lead: str) -> RailSession:
        return _LeadSessionAtBorder(super()._opened_behind(rail, open_alone, lead))

    def _replaced(self, redaction: Redaction) -> str | None:
        return None


class _LeadSessionAtBorder(LeadSession):
    """Reports only matches that begin in the lead, until none can any more; other sessions read the text decoded."""

    def __init__(self, session: RailSession) -> None:
        self._session = session
        self._fed = 0
        self._over = False

    def prepare(self) -> None:
        if isinstance(self._session, LeadSession):
            self._session.prepare()

    def feed(self, text: str) -> Verdict:
        self._fed += len(text)
        return Verdict(self._fed) if self._over else self._of(self._session.feed(text))

    def close(self) -> Verdict:
        return Verdict(self._fed) if self._over else self._of(self._session.close())

    def _of(self, verdict: Verdict) -> Verdict:
        begun = tuple(span for span in verdict.redact if span.start == 0)
        if verdict.block is not None and verdict.clear_to == 0:
            return verdict
        asked = verdict.escalate if not verdict.escalate_at else None
        if verdict.clear_to > 0:
            self._over = True
            return Verdict(self._fed, begun, None, asked, 0 if asked else None)
        return replace(verdict, redact=begun, escalate=asked)
