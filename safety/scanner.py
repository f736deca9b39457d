"""Matches in a text that comes in pieces: the same as `find_all` of the whole, but incremental.

Not covered: look-back past what is held. A match is judged by its own characters and one on either side.
"""

from __future__ import annotations

from safety import text
from safety.automaton import Action, Automaton, Match, State


def find_all(automaton: Automaton, whole: str) -> list[Match]:
    """Every match, in order; overlapping ones are joined, and carry the label of the rule that was added first."""
    scanner = Scanner(automaton)
    return [*scanner.feed(whole), *scanner.close()]


class Scanner:
    """State of one text. `clear_to`: no match that is still to be reported covers a character before it."""

    def __init__(self, automaton: Automaton) -> None:
        self._automaton = automaton
        self._state: State = automaton.start
        self._starts: list[int] = []
        self._found: list[tuple[int, int, int]] = []
        self._text = ""
        self._base = 0
        self._end = 0
        self.clear_to = 0

    def feed(self, piece: str) -> list[Match]:
        """Matches that this piece settled."""
        self._text += piece
        state, at = self._state, self._end
        for char in piece:
            state = state[char]
            if state.actions is not None:
                for action in state.actions:
                    self._run(action, at)
                state = state.target
            at += 1
        self._state, self._end = state, at
        return self._settle(self._earliest())

    def close(self) -> list[Match]:
        for event in self._automaton.at_end(self._state):
            self._report(self._starts[event.group], self._end, event.rule, event.back)
        self._starts, self._state = [], self._automaton.start
        return self._settle(self._end)

    def _run(self, action: Action, at: int) -> None:
        for event in action.events:
            end = at + 1 if event.inside else at
            self._report(self._starts[event.group], end, event.rule, event.back)
        self._starts = [self._starts[i] for i in action.keep]
        for group, limit in action.pins:
            self._starts[group] = self._bounded(self._starts[group], at, limit)
        if action.opened:
            self._starts += [at] * action.opened

    def _report(self, start: int, end: int, rule: int, back: int) -> None:
        end = self._trimmed(start, end, back)
        valid = self._automaton.rules[rule].valid
        fold = self._automaton.fold
        if valid is None or valid("".join(map(fold, self._text[start - self._base : end - self._base]))):
            self._add(start, end, rule)

    def _add(self, start: int, end: int, rule: int) -> None:
        apart = []
        for other in self._found:
            if other[0] < end and start < other[1]:
                start, end, rule = min(start, other[0]), max(end, other[1]), min(rule, other[2])
            else:
                apart.append(other)
        self._found = sorted([*apart, (start, end, rule)])

    def _trimmed(self, start: int, end: int, back: int) -> int:
        """`end` moved before `back` symbols and what is invisible before it; marks stay with their character."""
        while end > start + 1:
            char = self._text[end - 1 - self._base]
            if self._automaton.fold(char):
                if not back:
                    break
                back -= 1
            elif text.is_mark(char) and not back:
                break
            end -= 1
        return end

    def _bounded(self, start: int, at: int, limit: int) -> int:
        """The later of `start` and the place `limit` symbols before `at`."""
        if at - start <= limit:
            return start
        fold, place = self._automaton.fold, at
        while place > start and limit:
            place -= 1
            limit -= 1 if fold(self._text[place - self._base]) else 0
        return place

    def _earliest(self) -> int:
        """Where the earliest live thread began."""
        if not self._starts:
            return self._end
        if not self._state.slides:
            return self._starts[0]
        return min(
            start if limit is None else self._bounded(start, self._end, limit)
            for start, (_, limit) in zip(self._starts, self._state.groups, strict=True)
        )

    def _settle(self, earliest: int) -> list[Match]:
        settled: list[Match] = []
        if self._found:
            settled, earliest = self._split(earliest)
        self.clear_to = earliest
        if earliest > self._base:
            self._text = self._text[earliest - self._base :]
            self._base = earliest
        return settled

    def _split(self, earliest: int) -> tuple[list[Match], int]:
        """Matches that nothing live can reach, and the offset that the text is clear to."""
        settled: list[Match] = []
        waiting: list[tuple[int, int, int]] = []
        for start, end, rule in self._found:
            if end <= earliest:
                settled.append(Match(start, end, self._automaton.rules[rule].label))
            else:
                waiting.append((start, end, rule))
                earliest = min(earliest, start)
        self._found = waiting
        return settled, earliest
