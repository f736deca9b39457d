"""One rail at work in a hold-back window: its session, and how far it is content."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.plugins import ClearingSession, RailSession, Verdict, offers
from sluicegate.safety.rail_policy import RailPolicy


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


class _Unopened:
    """Stands in for a session that could not be made: each call raises the same error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def feed(self, text: str) -> Verdict:
        raise self._error

    def close(self) -> Verdict:
        raise self._error
