"""Configurations: all that a text so far can mean. Together with their steps they are an automaton, made as it is used.

A configuration pairs each lexeme state that the text can stand in with one frame: what follows that lexeme in any of
the ways to read the text. So there are never more pairs than lexeme states, however ambiguous the grammar is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.parsing.frames import ParseFrame, ParseFrames
from sluicegate.grammar.parsing.lexer import Flags, LexemeTable
from sluicegate.grammar.parsing.lexer_tables import OVER
from sluicegate.grammar.token_ids import I32

UNKNOWN = -2
REFUSED = -1
_FIRST_ROOM = 256
_BYTES = 2_500
"""Of a configuration beside its row, with its frames and steps."""
_OF_CONFIGURATION, _OF_PART = 30, 3
"""Work charged for a new configuration, and for each part that is followed."""

Part = tuple[int, ParseFrame]
"""(lexeme state, frame after the lexeme)."""


class Configuration:
    """`is_whole`: the text may end here. `steps`: by byte class, as far as they were asked for. `leaves`: see
    `Configurations`."""

    __slots__ = ("is_whole", "leaves", "number", "parts", "reading", "steps")

    def __init__(self, number: int, parts: tuple[Part, ...]) -> None:
        self.number = number
        self.parts = parts
        self.steps: dict[int, Configuration | None] = {}
        self.is_whole = False
        self.leaves = False
        self.reading: Any = None
        """The reading of a text in this configuration; None until it is needed."""


class Configurations:
    """The configurations of one grammar, the same object for the same parts.

    For compiled walks: `table` int32[N, C]: number of the next configuration by byte class, `REFUSED`, or `UNKNOWN`;
    `loops` int64[N]: kinds of characters of which one of its lexemes reads any number; `leaving` bool[N]: a lexeme may
    end here before something that is outside this automaton: one of the terminals `outside`, or, with `open_end`, the
    end of the text, or a frame that nothing is known of.
    """

    def __init__(
        self, frames: ParseFrames, lexer: LexemeTable, ignored: frozenset[int], outside: frozenset[int], open_end: bool
    ) -> None:
        self.frames = frames
        self.lexer = lexer
        self.ignored = tuple(sorted(ignored))
        self.outside_terminals = outside
        self._outside = outside | {frames.symbols.hole}
        self.open_end = open_end
        self.all: list[Configuration] = []
        self._known: dict[tuple[tuple[int, int], ...], Configuration] = {}
        self.table: I32 = np.empty((_FIRST_ROOM, lexer.count), np.int32)
        self.loops: npt.NDArray[np.int64] = np.zeros(_FIRST_ROOM, np.int64)
        self.leaving: Flags = np.zeros(_FIRST_ROOM, np.bool_)
        self._firsts: dict[ParseFrame, Flags] = {}

    @property
    def bytes_kept(self) -> int:
        return self.table.nbytes + _BYTES * len(self.all) + self.frames.bytes_kept

    def at(self, frame: ParseFrame) -> Configuration:
        """Return the configuration at the beginning of `frame`."""
        return self.of([(OVER, frame)])

    def of(self, parts: Iterable[Part]) -> Configuration:
        joined: dict[int, list[ParseFrame]] = {}
        for state, frame in parts:
            frames = joined.setdefault(state, [])
            if frame not in frames:
                frames.append(frame)
        distinct = tuple(sorted([(state, self.frames.union(each)) for state, each in joined.items()], key=_by_state))
        key = tuple([(state, frame.number) for state, frame in distinct])
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._new(distinct)
        return found

    def _new(self, parts: tuple[Part, ...]) -> Configuration:
        tick()
        charge(_OF_CONFIGURATION + _OF_PART * len(parts))
        number = len(self.all)
        if number == len(self.table):
            self._grow()
        made = Configuration(number, parts)
        self.all.append(made)
        ended = [frame for state, frame in parts if self.lexer.accepts[state]]
        made.is_whole = any(self.frames.opened(frame).is_whole for frame in ended)
        made.leaves = (self.open_end and made.is_whole) or any(self.leads_outside(frame) for frame in ended)
        self.leaving[number] = made.leaves
        self._fill(made, ended)
        return made

    def row(self, at: Configuration) -> I32:
        """Return int32[C]: for each byte class the next configuration, `UNKNOWN` or `REFUSED`."""
        if not (at.number < len(self.all) and self.all[at.number] is at):
            at = self.of(at.parts)
        row: I32 = self.table[at.number]
        return row

    def _fill(self, made: Configuration, ended: list[ParseFrame]) -> None:
        """Set what is known without a step: refused classes, and those that stay inside the same lexemes."""
        lexer, number = self.lexer, made.number
        row = self.table[number]
        row.fill(REFUSED)
        stays = np.ones(lexer.count, np.bool_)
        for state, _ in made.parts:
            after = lexer.next[state]
            row[after >= 0] = UNKNOWN
            stays &= after == state
        row[stays] = number
        for frame in ended:
            row[self.firsts(frame)] = UNKNOWN
        self.loops[number] = max([int(lexer.loops[state]) for state, _ in made.parts], key=int.bit_count)

    def _grow(self) -> None:
        more = len(self.table)
        self.table = np.concatenate([self.table, np.empty((more, self.lexer.count), np.int32)])
        self.loops = np.concatenate([self.loops, np.zeros(more, np.int64)])
        self.leaving = np.concatenate([self.leaving, np.zeros(more, np.bool_)])

    def renew(self, most: int) -> None:
        """Forget the configurations if there are more than `most`: those in use go on, and are made again if need be.
        Not while a walk holds numbers."""
        if len(self.all) > most:
            self.all, self._known, self._firsts = [], {}, {}

    def firsts(self, frame: ParseFrame) -> Flags:
        """Return the byte classes with which `frame` can begin."""
        found = self._firsts.get(frame)
        if found is None:
            classes = np.zeros(self.lexer.count, np.bool_)
            for terminal in self._terminals(frame):
                classes |= self.lexer.firsts[terminal]
            found = self._firsts[frame] = classes
        return found

    def _terminals(self, frame: ParseFrame) -> tuple[int, ...]:
        return (*self.frames.opened(frame).terminals, *self.ignored)

    def leads_outside(self, frame: ParseFrame) -> bool:
        """Return whether one of the terminals outside may come next, or a hole."""
        return not self._outside.isdisjoint(self.frames.opened(frame).terminals)

    def may_leave(self, frame: ParseFrame) -> bool:
        """Return whether the frame may end here: followed by the text outside, or by the end of a text that may
        continue."""
        return (self.open_end and self.frames.opened(frame).is_whole) or self.leads_outside(frame)

    def step(self, at: Configuration, byte_class: int) -> Configuration | None:
        """Return the configuration after a byte of `byte_class`, None where it is refused."""
        steps = at.steps
        if byte_class in steps:
            return steps[byte_class]
        tick()
        charge(_OF_PART * (1 + len(at.parts)))
        lexer = self.lexer
        parts: list[Part] = []
        for state, frame in at.parts:
            after = lexer.row(state)[byte_class]
            if after >= 0:
                parts.append((after, frame))
            if lexer.accepts[state]:
                parts.extend(self.starts(frame, byte_class))
        found = steps[byte_class] = self.of(parts) if parts else None
        if at.number < len(self.all) and self.all[at.number] is at:  # else a table that is gone knew it
            self.table[at.number, byte_class] = REFUSED if found is None else found.number
        return found

    def starts(self, frame: ParseFrame, byte_class: int) -> tuple[Part, ...]:
        """Return the parts of `frame` that a byte of `byte_class` begins."""
        found = frame.starts.get(byte_class)
        if found is None:
            lexer, frames = self.lexer, self.frames
            begun = [t for t in frames.opened(frame).terminals if lexer.firsts[t, byte_class]]
            parts = [(lexer.row(lexer.start(t))[byte_class], frames.shift(frame, t)) for t in begun]
            parts += [
                (lexer.row(lexer.start(t))[byte_class], frame) for t in self.ignored if lexer.firsts[t, byte_class]
            ]
            found = frame.starts[byte_class] = tuple(parts)
        return found


def _by_state(part: Part) -> int:
    return part[0]
