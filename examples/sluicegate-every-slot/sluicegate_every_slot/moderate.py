"""Slot `moderate`: takes out invisible characters that make text read in another order than it is written in.

Not covered: other invisible characters; some of them hold emoji and scripts together.
"""

from __future__ import annotations

import re

from sluicegate.plugins import Caller, Channel, RailExample, RailProperties, RailSession, Request, Span, Verdict

BIDI = re.compile("[\u202a-\u202e\u2066-\u2069]")


class NoBidi:
    """Decides every character by itself, so nothing is ever held and nothing of the past counts."""

    def __init__(self) -> None:
        self.name = "no-bidi"
        self.properties = RailProperties(
            version="1",
            look_back=0,
            hold_back=0,
            budget_s=0.005,
            examples=(
                RailExample("a\u202etxt.exe\u202c", forbidden=("\u202e", "\u202c")),
                RailExample("\u2067\u2069", forbidden=("\u2067", "\u2069")),
                RailExample("plain, \u05e9\u05dc\u05d5\u05dd and \U0001f469\u200d\U0001f680"),
            ),
        )

    def open(self, request: Request, caller: Caller, channel: Channel) -> RailSession:
        return _Session()


class _Session:
    def __init__(self) -> None:
        self._seen = 0

    def feed(self, text: str) -> Verdict:
        at, self._seen = self._seen, self._seen + len(text)
        spans = tuple(Span(at + m.start(), at + m.end(), "bidi control", "") for m in BIDI.finditer(text))
        return Verdict(self._seen, spans)

    def close(self) -> Verdict:
        return Verdict(self._seen)
