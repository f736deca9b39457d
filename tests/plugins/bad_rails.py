"""Rails for the word `forbidden`, one for each way to get it wrong, and one that is right."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from sluicegate.plugins import Caller, Channel, RailExample, RailProperties, RailSession, Request, Span, Verdict

WORD = "forbidden"
EXAMPLES = (
    RailExample(f"this is {WORD} here", forbidden=(WORD,)),
    RailExample(f"{WORD}{WORD}", forbidden=(WORD,)),
    RailExample("this is forbid, forbade and forbiddance"),
)


class Rail:
    """`make` opens a session; what it is given is the rail, so that a session can misbehave through it."""

    def __init__(self, make: Callable[[Rail], RailSession], **declared: Any) -> None:
        self.name = "word"
        self.properties = RailProperties(examples=EXAMPLES, **declared)
        self.shared = ""
        self._make = make

    def open(self, request: Request, caller: Caller, channel: Channel) -> RailSession:
        return self._make(self)


class Good:
    """Holds the longest end of the text that the word begins with."""

    def __init__(self, rail: Rail) -> None:
        self.text = ""
        self.done = 0

    def feed(self, text: str) -> Verdict:
        self.text += text
        spans = tuple(Span(m.start(), m.end(), "word") for m in re.finditer(WORD, self.text) if m.start() >= self.done)
        self.done = max(self.done, len(self.text) - self.held())
        return Verdict(self.done, spans)

    def held(self) -> int:
        return max(n for n in range(len(WORD)) if self.text.endswith(WORD[:n]))

    def close(self) -> Verdict:
        return Verdict(len(self.text))


class Bounded(Good):
    """Right, and forgets what it has settled: the cost of a call does not grow."""

    def __init__(self, rail: Rail) -> None:
        super().__init__(rail)
        self.offset = 0

    def feed(self, text: str) -> Verdict:
        self.text += text
        found = [Span(self.offset + m.start(), self.offset + m.end(), "word") for m in re.finditer(WORD, self.text)]
        settled = len(self.text) - self.held()
        self.text, self.offset = self.text[settled:], self.offset + settled
        return Verdict(self.offset, tuple(found))

    def close(self) -> Verdict:
        return Verdict(self.offset + len(self.text))


class PieceByPiece(Bounded):
    """Looks at each piece alone: blind to a word that is cut."""

    def held(self) -> int:
        return 0


class Late(Good):
    """Clears at once and redacts when the word is whole: it has left by then."""

    def feed(self, text: str) -> Verdict:
        before = len(self.text)
        self.text += text
        spans = (Span(m.start(), m.end(), "word") for m in re.finditer(WORD, self.text))
        return Verdict(len(self.text), tuple(s for s in spans if s.end > before))


class Backwards(Bounded):
    def feed(self, text: str) -> Verdict:
        verdict = super().feed(text)
        return Verdict(max(0, verdict.clear_to - 3), verdict.redact)

    def close(self) -> Verdict:
        return Verdict(1)


class TooFar(Bounded):
    def feed(self, text: str) -> Verdict:
        return Verdict(super().feed(text).clear_to + 5)


class Inside(Bounded):
    def feed(self, text: str) -> Verdict:
        verdict = super().feed(text)
        return Verdict(verdict.redact[0].start + 2, verdict.redact[:1]) if verdict.redact else verdict


class Unsettled(Bounded):
    def feed(self, text: str) -> Verdict:
        super().feed(text)
        return Verdict(0)

    def close(self) -> Verdict:
        return Verdict(0)


class Crashing(Bounded):
    def feed(self, text: str) -> Verdict:
        if "b" in text:
            raise KeyError("no rule for b")
        return super().feed(text)


class Slow(Bounded):
    def feed(self, text: str) -> Verdict:
        time.sleep(0.004)
        return super().feed(text)


class Hanging(Bounded):
    def feed(self, text: str) -> Verdict:
        time.sleep(60)
        return super().feed(text)


class Forgetful(Bounded):
    """Keeps its text in the rail, where every other session finds it."""

    def __init__(self, rail: Rail) -> None:
        super().__init__(rail)
        self.rail = rail

    def feed(self, text: str) -> Verdict:
        self.rail.shared += text
        verdict = super().feed(text)
        return Verdict(
            verdict.clear_to, verdict.redact, block="seen too often" if "forbade" in self.rail.shared else None
        )


class ByLength(Bounded):
    """Blocks long pieces: an accident of how the text was cut."""

    def feed(self, text: str) -> Verdict:
        verdict = super().feed(text)
        return Verdict(verdict.clear_to, verdict.redact, block="long" if len(text) > 30 else None)


class Strict(Good):
    def feed(self, text: str) -> Verdict:
        verdict = super().feed(text)
        return Verdict(verdict.clear_to, verdict.redact, block="forb" if "forbade" in self.text else None)


class Wordy(Bounded):
    def feed(self, text: str) -> Any:
        super().feed(text)
        return "fine"


class Whole(Good):
    """Right, but holds everything to the end."""

    def feed(self, text: str) -> Verdict:
        self.text += text
        return Verdict(0)

    def close(self) -> Verdict:
        spans = tuple(Span(m.start(), m.end(), "word") for m in re.finditer(WORD, self.text))
        return Verdict(len(self.text), spans)


class Quadratic(Good):
    """Reads all of the text again on every call."""

    def feed(self, text: str) -> Verdict:
        sum(map(ord, self.text))
        self.text += text
        return Verdict(len(self.text))


class Remembering(Bounded):
    """Redacts the word only after an odd number of `i` in the whole text before it."""

    def __init__(self, rail: Rail) -> None:
        super().__init__(rail)
        self.count = 0

    def feed(self, text: str) -> Verdict:
        verdict = super().feed(text)
        spans = []
        for span in verdict.redact:
            spans += [span] if self.count % 2 == 0 else []
            self.count += 1
        return Verdict(verdict.clear_to, tuple(spans))
