"""Find matches in a text that comes in pieces: the same matches as `find_all` of the whole.

Not covered: look-back beyond the held text. A match depends on its own characters and one on either side.
"""

from __future__ import annotations

from sluicegate.safety.matching import symbols as text
from sluicegate.safety.matching.automaton import Action, Automaton, AutomatonState, Match
from sluicegate.safety.matching.prefilter import Candidates

NEAR = 512
"""Characters at a lead's end that are always read; a match that began earlier is found by the prefilter."""
SHORT = 16
"""Characters below which a text is scanned without the prefilter, which would cost more than it saves."""


def find_all(automaton: Automaton, whole: str) -> list[Match]:
    """Return every match, in order; overlapping ones are joined, and carry the label of the rule that was added
    first."""
    if automaton.prefilter is not None and len(whole) >= SHORT:
        candidates = automaton.prefilter.candidates(whole)
        first = candidates.next(0)
        if first is None and not automaton.at_end(automaton.start):
            return []
        return Scanner(automaton).search(whole, candidates, first)
    return scan_all(automaton, whole)


def scan_all(automaton: Automaton, whole: str) -> list[Match]:
    """Find all matches by reading every character: the reference for `find_all`."""
    scanner = Scanner(automaton)
    return [*scanner.feed(whole), *scanner.close()]


class Scanner:
    """The state of one text. Mutable. `clear_to`: no match still to be reported covers a character before it."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self._state: AutomatonState = automaton.start
        self._starts: list[int] = []
        self._found: list[tuple[int, int, int]] = []
        self._excluded: set[tuple[int, int]] = set()
        self._text = ""
        self._base = 0
        self._end = 0
        self.clear_to = 0

    def feed(self, piece: str) -> list[Match]:
        """Read `piece`; return the matches that became final."""
        self._text += piece
        state, at, starts = self._state, self._end, self._starts
        for char in piece:
            state = state[char]
            if state.actions is not None:
                if (moves := state.moves) is None:
                    self._starts = starts
                    self._act(state, at)
                    starts = self._starts
                else:  # `_act`, inlined: it runs at every third letter of a stream
                    keep, opened = moves
                    if keep is not None:
                        if len(keep) == 1:
                            starts = [starts[keep[0]]]
                        else:
                            starts = [starts[i] for i in keep] if keep else []
                    if opened == 1:
                        starts.append(at)
                    elif opened:
                        starts.extend([at] * opened)
                state = state.target
            at += 1
        self._state, self._end, self._starts = state, at, starts
        if starts or self._found or self._excluded:
            return self._settle(self._earliest())
        self.clear_to = self._base = at  # nothing is live and nothing waits
        self._text = ""
        return []

    def close(self) -> list[Match]:
        for event in self.automaton.at_end(self._state):
            self._report(self._starts[event.group], self._end, event.rule, event.back)
        self._starts, self._state = [], self.automaton.start
        return self._settle(self._end)

    def cut(self) -> list[Match]:
        """Close a text that was cut short: an unfinished match that would reveal too much is reported."""
        for group, rule, missing in self.automaton.unfinished(self._state):
            start, reveals = self._start(group), self.automaton.rules[rule].reveals
            if reveals is not None and reveals(self._end - start, missing):
                self._add(start, self._end, rule)
        return self.close()

    def _start(self, group: int) -> int:
        """Return the offset at which group `group` begins."""
        limit = self._state.groups[group][1]
        return self._starts[group] if limit is None else self._bounded(self._starts[group], self._end, limit)

    def read_before(self, lead: str) -> None:
        """Read `lead` as `feed` would, without reporting matches that end in it. More than `NEAR` characters back, only
        places found by the automaton's prefilter are read."""
        at, far = 0, len(lead) - NEAR
        self._text = lead
        if self.automaton.prefilter is not None and far > 0:
            candidates = self.automaton.prefilter.candidates(lead)
            while (found := candidates.next(at)) is not None and found[0] < far:
                self._state = self.automaton.idle_after(_visible_before(self.automaton, lead, found[0]))
                at = self._read_until_idle(*found)
            if not self._state.groups and at < far:
                at, self._state = far, self.automaton.idle_after(_visible_before(self.automaton, lead, far))
        self._read_until_idle(at, len(lead))
        self._end = len(lead)
        self._settle(self._earliest())

    def search(self, whole: str, candidates: Candidates, found: tuple[int, int] | None) -> list[Match]:
        """Return all matches of a whole text. Reads only from each candidate of the automaton's prefilter until no
        thread is live; at a candidate, the state depends only on the characters just before. `found`: the first
        candidate."""
        self._text = whole
        while found is not None:
            start, end = found
            self._state = self.automaton.idle_after(_visible_before(self.automaton, whole, start))
            found = candidates.next(self._read_until_idle(start, end))
        self._end = len(whole)
        return self.close()

    def _read_until_idle(self, start: int, end: int) -> int:
        """Read from `start` to `end` and on while a thread is live; return the offset reached."""
        state, at = self._state, start
        while at < len(self._text) and (at < end or state.groups):
            state = state[self._text[at]]
            if state.actions is not None:
                self._act(state, at)
                state = state.target
            at += 1
        self._state = state
        return at

    def _act(self, arrow: AutomatonState, at: int) -> None:
        """Run the actions of `arrow`, as `_run` does."""
        if arrow.moves is None:
            for action in arrow.actions or ():
                self._run(action, at)
            return
        keep, opened = arrow.moves
        if keep is not None:
            starts = self._starts
            if len(keep) > 1:
                self._starts = [starts[i] for i in keep]
            else:  # by far the most frequent; a comprehension would be a call
                self._starts = [starts[keep[0]]] if keep else []
        if opened:
            self._starts.extend([at] * opened)

    def _run(self, action: Action, at: int) -> None:
        for event in action.events:
            end = at + 1 if event.inside else at
            self._report(self._starts[event.group], end, event.rule, event.back)
        if action.keep is not None:
            starts = self._starts
            self._starts = [starts[i] for i in action.keep]
        for group, limit in action.pins:
            self._starts[group] = self._bounded(self._starts[group], at, limit)
        if action.opened:
            self._starts.extend([at] * action.opened)

    def _report(self, start: int, end: int, rule: int, back: int) -> None:
        end = self._trimmed(start, end, back)
        if (start, end) in self._excluded:
            return
        valid, fold = self.automaton.rules[rule].valid, self.automaton.fold
        if valid is not None and not valid("".join(map(fold, self._text[start - self._base : end - self._base]))):
            return
        if self.automaton.rules[rule].excludes:
            self._excluded.add((start, end))  # the automaton reports it before other matches of the same characters
            if back:  # but not what it knows only by the text behind, during which they wait
                self._found = [found for found in self._found if found[:2] != (start, end)]
        else:
            self._add(start, end, rule)

    def _add(self, start: int, end: int, rule: int) -> None:
        """Add a match. `_found` stays sorted and disjoint; a new match can overlap only its last ones."""
        found, later = self._found, []
        while found and found[-1][1] > start:
            other = found.pop()
            if other[0] >= end:
                later.append(other)
                continue
            start, end, rule = min(start, other[0]), max(end, other[1]), min(rule, other[2])
        found.append((start, end, rule))
        found.extend(reversed(later))

    def _trimmed(self, start: int, end: int, back: int) -> int:
        """Return `end` moved back by `back` symbols and the invisible characters before it; marks stay with their
        character."""
        while end > start + 1:
            char = self._text[end - 1 - self._base]
            if self.automaton.fold(char):
                if not back:
                    break
                back -= 1
            elif text.is_mark(char) and not back:
                break
            end -= 1
        return end

    def _bounded(self, start: int, at: int, limit: int) -> int:
        """Return the later of `start` and the offset `limit` symbols before `at`."""
        if at - start <= limit:
            return start
        fold, place = self.automaton.fold, at
        while place > start and limit:
            place -= 1
            limit -= 1 if fold(self._text[place - self._base]) else 0
        return place

    def _earliest(self) -> int:
        """Return the offset at which the earliest live thread began."""
        if not self._starts:
            return self._end
        if not self._state.slides:
            return min(self._starts)
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
            if self._excluded:
                self._excluded = {place for place in self._excluded if place[1] > earliest}
            self._text = self._text[earliest - self._base :]
            self._base = earliest
        return settled

    def _split(self, earliest: int) -> tuple[list[Match], int]:
        """Return the matches that no live thread can change, and the offset before which the text is clear."""
        settled: list[Match] = []
        waiting: list[tuple[int, int, int]] = []
        for start, end, rule in self._found:
            if end <= earliest:
                settled.append(Match(start, end, self.automaton.rules[rule].label))
            else:
                waiting.append((start, end, rule))
                earliest = min(earliest, start)
        self._found = waiting
        return settled, earliest


def _visible_before(automaton: Automaton, whole: str, at: int) -> str:
    """Return the characters before `at` that have at least two symbols, or all there are."""
    start, symbols = at, 0
    while start > 0 and symbols < 2:
        start -= 1
        symbols += len(automaton.fold(whole[start]))
    return whole[start:at]
