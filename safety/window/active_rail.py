"""One rail at work in a hold-back window: its session, how far it is content, and whether its verdicts can be true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.plugins import ClearingSession, RailSession, Verdict, offers
from sluicegate.safety.rail_policy import RailPolicy


class BadVerdict(Exception):
    """A rail's answer breaks the contract; the message says how."""


@dataclass(slots=True)
class ActiveRail:
    """One rail at work on the channel."""

    name: str
    open: Callable[[], RailSession]
    session: RailSession
    rail_policy: RailPolicy
    clear_to: int = 0
    dropped: bool = False  # it failed, and may
    silent: bool = False  # it blocked, and that ended nothing

    @classmethod
    def opened(cls, name: str, open_session: Callable[[], RailSession], rail_policy: RailPolicy) -> ActiveRail:
        """Open a session. One that cannot be made fails at its first piece."""
        try:
            session: RailSession = open_session()
        except Exception as error:
            session = _Unopened(error)
        return cls(name, open_session, session, rail_policy)

    @property
    def speaks(self) -> bool:
        return not self.dropped and not self.silent

    @property
    def counts(self) -> bool:
        """Return whether what it says decides over what leaves."""
        return self.speaks and self.rail_policy.mode != "shadow"

    def clears(self, text: str) -> bool:
        """Return whether its session lets `text` through as a whole; False where it cannot tell, or its time is
        limited."""
        session = self.session
        if self.rail_policy.budget_s is not None or not offers(session, ClearingSession):
            return False
        try:
            return session.clears(text) is True
        except Exception:  # it will fail again where failures are dealt with
            return False


def check_verdict(verdict: Verdict, before: int, fed: int, *, closing: bool, redacts: bool = True) -> None:
    """Check that `verdict` can be of `fed` characters after one that was clear to `before`. Raises `BadVerdict`
    otherwise. `closing`: no more will come; `redacts`: its rail may replace text."""
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


class _Unopened:
    """Stands in for a session that could not be made: each call raises the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def feed(self, text: str) -> Verdict:
        raise self._error

    def close(self) -> Verdict:
        raise self._error
