"""Track one rail in a hold-back window: its session, and up to where it has cleared the text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.plugins import ClearingSession, RailSession, Verdict, offers
from sluicegate.safety.rail_policy import RailPolicy

RAIL_FAILURES = (BaseException,)
"""What raised in a rail's code is a failure of that rail: nothing is awaited there, so none of it is the caller's, and
a server takes signals elsewhere. In a program of your own Ctrl-C counts as one, too, while a rail computes."""


@dataclass(slots=True)
class ActiveRail:
    """One rail with its session on a channel. Mutable."""

    name: str
    open: Callable[[], RailSession]
    session: RailSession
    rail_policy: RailPolicy
    clear_to: int = 0
    dropped: bool = False  # it failed, and its policy lets failures pass
    blocked_without_stop: bool = False  # it blocked, and its policy does not end the stream for that

    @classmethod
    def opened(cls, name: str, open_session: Callable[[], RailSession], rail_policy: RailPolicy) -> ActiveRail:
        """Open a session. If that fails, the rail fails at its first piece."""
        try:
            session: RailSession = open_session()
        except RAIL_FAILURES as error:
            session = _UnopenedSession(error)
        return cls(name, open_session, session, rail_policy)

    @property
    def is_active(self) -> bool:
        return not self.dropped and not self.blocked_without_stop

    @property
    def is_enforced(self) -> bool:
        """Return whether its verdicts decide what is released."""
        return self.is_active and self.rail_policy.mode != "shadow"

    def clears(self, text: str) -> bool:
        """Return whether its session clears `text` as a whole; False if the session cannot say, or its time is
        limited."""
        session = self.session
        if self.rail_policy.budget_s is not None or not offers(session, ClearingSession):
            return False
        try:
            return session.clears(text) is True
        except RAIL_FAILURES:  # `feed` will fail again, where failures are handled
            return False


class _UnopenedSession:
    """Stands in for a session that could not be opened: each call raises the same error."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def feed(self, text: str) -> Verdict:
        raise self._error

    def close(self) -> Verdict:
        raise self._error
