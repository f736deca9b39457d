"""Make the automaton of `safety.matching.nfa` deterministic while text is read, in time linear in the text.

It finds every match of every rule at every start, each as long as possible; overlapping matches are joined. So a match
cannot hide inside another or next to it. `find_all` reads a whole text; `Scanner` finds the same matches incrementally,
and knows after each character where the earliest match that may still come would begin.

A state of the deterministic automaton is an ordered tuple of *groups*, oldest first. A group is the set of threads (of
the NFA simulation) that began at one offset. The offset is a register of the scanner, not part of the state, so all
texts share the states. A thread in two groups is dropped from the younger: the older one's match is longer.

Not covered: a bound on matches. The scanner holds text that may still match; the hold-back window bounds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sluicegate.safety.matching import symbols as text
from sluicegate.safety.matching.nfa import Accept, Nfa, Rule
from sluicegate.safety.matching.prefilter import Prefilter

MAX_STATES = 20_000
"""Deterministic states kept; beyond that all are dropped and built again as texts need them."""

Group = tuple[frozenset[int], int | None]
"""NFA positions, and the maximum distance of the group's start in symbols (None: the start is fixed)."""


@dataclass(frozen=True, slots=True)
class Match:
    start: int
    end: int
    label: str


@dataclass(frozen=True, slots=True)
class MatchEvent:
    """A match of `rule` from the start of group `group` to `back` symbols before this character."""

    group: int
    rule: int
    back: int
    inside: bool
    """The match ends within this character, which folds to several symbols: the whole character belongs to it."""


@dataclass(frozen=True, slots=True)
class Action:
    """Register operations of a transition, in order: report `events`; give group n the start of group `keep[n]` (None:
    no change); fix the starts of groups that no longer slide, `pins` of (group, limit); open `opened` new groups."""

    events: tuple[MatchEvent, ...]
    keep: tuple[int, ...] | None
    pins: tuple[tuple[int, int], ...]
    opened: int


class AutomatonState(dict[str, "AutomatonState"]):
    """Next states by character, filled on demand. A value with `actions` stands for a transition with register
    operations: run them, then go on from `target`."""

    __slots__ = ("actions", "automaton", "context", "ends", "groups", "moves", "slides", "target")

    def __init__(self, automaton: Automaton, groups: tuple[Group, ...], context: str) -> None:
        super().__init__()
        self.automaton, self.groups, self.context = automaton, groups, context
        self.slides = any(limit is not None for _, limit in groups)
        self.actions: tuple[Action, ...] | None = None
        self.moves: tuple[tuple[int, ...] | None, int] | None = None
        """(`keep`, `opened`) if the transition has no other operations, as nearly all have."""
        self.target = self
        self.ends: list[MatchEvent] | None = None

    def __missing__(self, char: str) -> AutomatonState:
        found = self[char] = self.automaton.step(self, char)
        return found


class Automaton:
    """Immutable for its users and shared by all sessions; builds its states as texts reach them."""

    def __init__(self, nfa: Nfa, fold: Callable[[str], str]) -> None:
        self.rules: list[Rule] = nfa.rules
        self.fingerprint = nfa.fingerprint
        self.fold = fold
        self._nfa = nfa
        self._states: dict[tuple[tuple[Group, ...], str], AutomatonState] = {}
        self._moves: dict[tuple[int, str], frozenset[int]] = {}
        self._begins: dict[tuple[str, str], frozenset[int]] = {}
        self._distances: list[tuple[int, int] | None] | None = None
        self.start = AutomatonState(self, (), "edge")
        self.has_phrases = nfa.has_phrases
        self.prefilter = None if nfa.openings is None else Prefilter([*nfa.shapes, *nfa.openings], fold)

    def idle_after(self, before: str) -> AutomatonState:
        """Return the state without live threads after the text `before`; its last few characters are enough."""
        context = "edge"
        for symbol in "".join(map(self.fold, before)):
            context = _context(context, symbol)
        return self._intern((), context)

    def step(self, state: AutomatonState, char: str) -> AutomatonState:
        """Return the transition for `char`; without register operations it is the next state itself."""
        at, actions = state, []
        for n, symbol in enumerate(self.fold(char)):
            action, at = self._read(at, symbol, inside=n > 0)
            if action != _NO_ACTION:
                actions.append(action)
        if not actions:
            return at
        arrow = AutomatonState(self, (), "")
        arrow.actions, arrow.target = tuple(actions), at
        if len(actions) == 1 and not actions[0].events and not actions[0].pins:
            arrow.moves = (actions[0].keep, actions[0].opened)
        return arrow

    def at_end(self, state: AutomatonState) -> list[MatchEvent]:
        """Return the matches that the end of the text completes."""
        if state.ends is None:
            state.ends = self._accepted(state, "")
        return state.ends

    def unfinished(self, state: AutomatonState) -> list[tuple[int, int, int]]:
        """Return (group, rule, fewest symbols missing) of unfinished matches whose rule has `reveals`."""
        if self._distances is None:
            self._distances = self._nfa.distances()
        found = [
            (index, near[1], near[0])
            for index, (positions, _) in enumerate(state.groups)
            for near in (self._distances[q] for q in positions)
            if near is not None and self.rules[near[1]].reveals is not None
        ]
        return sorted(set(found))

    def _read(self, state: AutomatonState, symbol: str, *, inside: bool) -> tuple[Action, AutomatonState]:
        events = self._accepted(state, symbol, inside=inside)
        groups: list[Group] = []
        keep: list[int] = []
        pins: list[tuple[int, int]] = []
        seen: set[int] = set()
        for index in _by_age(state.groups):
            positions, limit = state.groups[index]
            reached = frozenset[int]().union(*(self._move(q, symbol) for q in positions))
            for group in self._parted(reached, seen):
                if limit is not None and group[1] is None:
                    pins.append((len(groups), limit))
                groups.append(group)
                keep.append(index)
        fresh = list(self._parted(self._begin(state.context, symbol), seen))
        kept = None if keep == list(range(len(state.groups))) else tuple(keep)
        action = Action(tuple(events), kept, tuple(pins), len(fresh))
        return action, self._intern((*groups, *fresh), _context(state.context, symbol))

    def _accepted(self, state: AutomatonState, symbol: str, *, inside: bool = False) -> list[MatchEvent]:
        """Return the matches that end before `symbol`. Rules with `excludes` come first, so that the matches they
        remove are not reported."""
        events = [
            MatchEvent(index, accept.rule, accept.back, inside)
            for index, (positions, _) in enumerate(state.groups)
            for accept in sorted({a for q in positions for a in self._nfa.positions[q].accepts}, key=_accept_order)
            if _may_follow(accept.right, symbol)
        ]
        return sorted(events, key=lambda event: not self.rules[event.rule].excludes)

    def _parted(self, reached: frozenset[int], seen: set[int]) -> Iterator[Group]:
        """Yield the positions that no older group holds, grouped by their `slide` limit."""
        fresh = reached - seen
        table = self._nfa.positions
        seen.update(q for q in fresh if not table[q].checked)
        limits = {table[q].slide for q in fresh}
        for limit in sorted(limits, key=_slide_order):
            yield (fresh if len(limits) == 1 else frozenset(q for q in fresh if table[q].slide == limit)), limit

    def _move(self, q: int, symbol: str) -> frozenset[int]:
        found = self._moves.get((q, symbol))
        if found is None:
            position = self._nfa.positions[q]
            targets = [*position.chars.get(symbol, ()), *(t for chars, t in position.sets if symbol in chars)]
            found = self._moves[q, symbol] = frozenset[int]().union(*map(self._nfa.closure, targets))
        return found

    def _begin(self, context: str, symbol: str) -> frozenset[int]:
        found = self._begins.get((context, symbol))
        if found is None:
            entries = [e.position for e in self._nfa.entries if _may_precede(e.left, context)]
            waiting = frozenset[int]().union(*map(self._nfa.closure, entries))
            found = frozenset[int]().union(*(self._move(q, symbol) for q in waiting))
            self._begins[context, symbol] = found
        return found

    def _intern(self, groups: tuple[Group, ...], context: str) -> AutomatonState:
        found = self._states.get((groups, context))
        if found is None:
            if len(self._states) >= MAX_STATES:
                self._forget()
            found = self._states[groups, context] = AutomatonState(self, groups, context)
        return found

    def _forget(self) -> None:
        """Drop all states. Those in use by sessions stay valid: their transitions are computed again."""
        states, self._states, self._moves, self._begins = self._states, {}, {}, {}
        for state in states.values():
            state.clear()
        self.start.clear()


_NO_ACTION = Action((), None, (), 0)


def _by_age(groups: tuple[Group, ...]) -> list[int]:
    """Order groups with sliding ones last: a start fixed now is later than the starts fixed before. (It may be earlier
    for the head of an address, but no other group holds positions of its rest.)"""
    return sorted(range(len(groups)), key=lambda index: groups[index][1] is not None)


def _slide_order(limit: int | None) -> int:
    return -1 if limit is None else limit


def _accept_order(accept: Accept) -> tuple[int, int]:
    return accept.rule, accept.back


def _context(before: str, symbol: str) -> str:
    """Return the context of a match start: `digit`, `point` (point or dash after a digit), `word`, or `open` (any
    other). A comma is none: it parts the columns of a table more often than the digits of a number."""
    if symbol.isdecimal():
        return "digit"
    if symbol in ".-" and before == "digit":
        return "point"
    return "word" if text.is_word(symbol) else "open"


def _may_precede(left: str, context: str) -> bool:
    if left == "edge":
        return context == "edge"
    if left == "word":
        return context not in ("word", "digit")
    return left == "any" or context not in ("word", "digit", "point")


def _may_follow(right: str, symbol: str) -> bool:
    """Return whether a match may end before `symbol`; the empty symbol is the end of the text."""
    if not symbol or right == "any":
        return True
    if right == "digitless":
        return not symbol.isdecimal()
    if right == "number":
        return not text.is_word(symbol) and symbol not in ".-"
    return right == "word" and not text.is_word(symbol)
