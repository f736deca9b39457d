"""Continuations between the parts of a tag: made on first visit, forked, or literals that share beginnings."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import InLexeme
from sluicegate.grammar.reading.region_tape import RegionTape
from sluicegate.grammar.tags.freetext import literal

Head = tuple[str, Continuation]
"""(literal, what comes after it)."""


class LazyContinuation(Continuation):
    """Readings made by a function that is called once. `restarts`: a JSON region begins here."""

    __slots__ = ("_known", "begins_value", "readings")
    in_frame = True

    def __init__(self, readings: Callable[[], tuple[Reading, ...]], restarts: bool = False) -> None:
        super().__init__()
        self.readings = readings
        self.begins_value = restarts
        """See `restarts`; known last where tags repeat."""
        self._known: tuple[Reading, ...] | None = None

    def after(self, outcome: int) -> tuple[Reading, ...]:
        if self._known is None:
            self._known = self.readings()
        return self._known

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        if self.restarts:
            run.reads_text()  # the tape moves, so this step is taken anew each time
            assert isinstance(run.tape, RegionTape)
            run.tape.restart(end_offset)
        return self.after(outcome)

    @property
    def restarts(self) -> bool:
        return self.begins_value

    @property
    def is_end(self) -> bool:
        return any(reading.can_stop for reading in self.after(0))


class LiteralContinuation(LazyContinuation):
    """One of several literals."""

    __slots__ = ("heads",)

    def __init__(self, heads: Iterable[Head]) -> None:
        self.heads = tuple(heads)
        super().__init__(lambda: spelled(self.heads), any(restarts(after) for text, after in self.heads if not text))


class WaysByOutcome(LazyContinuation):
    """One continuation for each outcome of the lexeme before."""

    __slots__ = ("ways",)

    def __init__(self, ways: Iterable[Continuation]) -> None:
        self.ways = tuple(ways)
        super().__init__(lambda: tuple(reading for way in self.ways for reading in way.after(0)), False)

    def of(self, outcome: int) -> Continuation:
        return self.ways[outcome]

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return self.ways[outcome].after(0)

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        return self.ways[outcome].finish(0, run, end_offset)

    @property
    def is_end(self) -> bool:
        return any(way.is_end for way in self.ways)


def restarts(follow: Continuation) -> bool:
    return isinstance(follow, LazyContinuation) and follow.restarts


def fork(ways: Iterable[Continuation]) -> Continuation:
    """Continue in any of `ways`."""
    listed = tuple(dict.fromkeys(ways))
    if len(listed) == 1:
        return listed[0]
    return LazyContinuation(
        lambda: tuple(reading for way in listed for reading in way.after(0)), any(map(restarts, listed))
    )


def spelled(heads: Iterable[Head]) -> tuple[Reading, ...]:
    """Return the readings at the first byte of `heads`; those that begin alike share one as far as they do."""
    readings: list[Reading] = []
    groups: dict[str, list[Head]] = {}
    for text, follow in heads:
        if text:
            groups.setdefault(text[0], []).append((text, follow))
        else:
            readings.extend(follow.after(0))
    for group in groups.values():
        shared = _shared([text for text, _ in group])
        rest = [(text[len(shared) :], follow) for text, follow in group]
        lexeme = literal(shared)
        follow = rest[0][1] if len(rest) == 1 else LiteralContinuation(rest)
        readings.append(InLexeme(lexeme, lexeme.start, follow))
    return tuple(readings)


def _shared(texts: list[str]) -> str:
    """Return the longest common prefix."""
    first, last = min(texts), max(texts)
    size = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:size]
