"""Read a text with its JSON escapes decoded, beside the sessions that read it as it is spelled.

For answers whose form a pattern, a grammar or a choice determines: a client decodes them where they are JSON, and
nothing says whether they are.

Not covered: a second layer of escapes (JSON in a string of JSON).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from sluicegate.plugins import ClearingSession, CuttableSession, RailSession, Verdict, offers
from sluicegate.safety.window.json_position import UNPAIRED, EscapeRun
from sluicegate.safety.window.verdict_check import check_verdict


class UnescapedSession:
    """A rail's session on the decoded text, whose verdicts are in offsets of the text as it is spelled. Content until
    the first backslash: then it reads all that came before."""

    def __init__(self, open_session: Callable[[], RailSession]) -> None:
        self._open = open_session
        self._opened: RailSession | None = None
        self._waiting: list[str] | None = []
        """The text before the first backslash."""
        self._fed = self._clear_to = 0
        self._decoded = EscapeDecoder()

    @property
    def _session(self) -> RailSession:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def feed(self, text: str) -> Verdict:
        self._fed += len(text)
        if self._waiting is not None:
            self._waiting.append(text)
            if "\\" not in text:
                return Verdict(self._fed)
            text, self._waiting = "".join(self._waiting), None
        return self._checked(self._session.feed(self._decoded.feed(text)), closing=False)

    def close(self) -> Verdict:
        return self._last(cut=False)

    def cut(self) -> Verdict:
        return self._last(cut=True)

    def clears(self, text: str) -> bool:
        if "\\" not in text:
            return True
        decoder = EscapeDecoder()
        session = self._session
        return offers(session, ClearingSession) and session.clears(decoder.feed(text) + decoder.close()) is True

    def _last(self, *, cut: bool) -> Verdict:
        if self._waiting is not None:
            return Verdict(self._fed)
        session = self._session
        rest = self._decoded.close()
        before = self._checked(session.feed(rest), closing=False) if rest else Verdict(self._clear_to)
        if before.block is not None:
            return before
        ends = session.cut if cut and offers(session, CuttableSession) else session.close
        last = self._checked(ends(), closing=True)
        asked = before if before.escalate else last
        return replace(
            last, redact=(*before.redact, *last.redact), escalate=asked.escalate, escalate_at=asked.escalate_at
        )

    def _checked(self, verdict: Verdict, *, closing: bool) -> Verdict:
        verdict = check_verdict(verdict, self._clear_to, self._decoded.length, closing=closing)
        self._clear_to = verdict.clear_to
        spelled = self._decoded.spelled
        spans = tuple([replace(s, start=spelled(s.start), end=spelled(s.end)) for s in verdict.redact])
        at = None if verdict.escalate_at is None else spelled(verdict.escalate_at)
        return replace(verdict, clear_to=spelled(verdict.clear_to), redact=spans, escalate_at=at)


class EscapeDecoder:
    """Decodes the escapes of JSON in a text that comes in pieces. `length`: decoded so far. Mutable."""

    def __init__(self) -> None:
        self.length = 0
        self._escape = EscapeRun()
        self._at: list[int] = []
        self._longer: list[int] = [0]
        """Offsets of escaped characters, and by how much the spelling is longer behind each."""

    def feed(self, text: str) -> str:
        """Return what can be decoded now."""
        found: list[str] = []
        at = 0
        while at < len(text):
            if not self._escape.spelled:
                end = text.find("\\", at)
                plain = text[at:] if end < 0 else text[at:end]
                found.append(plain)
                self.length += len(plain)
                at += len(plain)
            elif unpaired := self._escape.take_unpaired(text[at]):
                found.append(self._noted(UNPAIRED, unpaired))
                continue
            if at < len(text):
                found += [self._noted(char, spelled) for char, spelled in self._escape.read(text[at])]
                at += 1
        return "".join(found)

    def close(self) -> str:
        """Return the escape that the text ended in, as it is spelled."""
        rest, self._escape = self._escape.spelled, EscapeRun()
        self.length += len(rest)
        return rest

    def spelled(self, offset: int) -> int:
        """Return the offset in the spelling of an offset in the decoded text."""
        return offset + self._longer[bisect_left(self._at, offset)]

    def _noted(self, char: str, spelled: str) -> str:
        self._at.append(self.length)
        self._longer.append(self._longer[-1] + len(spelled) - 1)
        self.length += 1
        return char
