"""Patterns and phrases compiled to one non-deterministic automaton over symbols.

Positions are small integers. An edge carries a set of characters (from patterns) or single characters (from the trie
of phrases). `safety.matching.automaton` runs it; nothing here sees text.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.matching import symbols as text
from sluicegate.safety.matching.charset import CharSet, characters
from sluicegate.safety.matching.confusables import AMBIGUOUS, LEET
from sluicegate.safety.matching.regex import Alternatives, Concat, Node, ParsedPattern, RegexRepeat, longest, parse

MAX_STATES = 20_000
"""Of patterns alone; phrases share a trie and are not counted."""

EVADED_LETTERS = 6
"""Letters from which a phrase is also found in disguise: `50` should not match `so`. An ideograph counts as two."""

OPENING = 6
"""Symbols of a phrase's beginning that the prefilter searches for."""
MOST_OPENINGS = 32

_EMPHASIS = "*_~`"
_SPACE = "\0"  # in a spelled-out phrase: one mark or more between two letters
_SPACERS = " .-_*|/\u00b7\u2022"


@dataclass(frozen=True, slots=True)
class Rule:
    """The meaning of a match.

    `valid` checks the matched symbols and keeps no state; its rule's matches must have bounded length, because every
    start in the text is then followed separately. `reveals(symbols present, fewest symbols missing)`: whether the
    beginning of a match must be reported where the text is cut short within it. `excludes`: a match is not reported,
    and removes other rules' matches of the same characters, so that a cue ("section") can tell what a number is not;
    its patterns must end as theirs do, and it needs `valid`.
    """

    label: str
    valid: Callable[[str], bool] | None = None
    reveals: Callable[[int, int], bool] | None = None
    excludes: bool = False


@dataclass(frozen=True, slots=True)
class Accept:
    """Accepts a match of `rule`. `right`: what may follow: `any`, `word`, `number` or `edge`. `back`: symbols read past
    the match's end."""

    rule: int
    right: str
    back: int = 0


@dataclass(slots=True)
class Position:
    empty: list[int] = field(default_factory=list)
    sets: list[tuple[CharSet, int]] = field(default_factory=list)
    chars: dict[str, tuple[int, ...]] = field(default_factory=dict)
    accepts: tuple[Accept, ...] = ()
    slide: int | None = None
    """A number limits how far back the start of threads at this position lies, in symbols: the start slides."""
    checked: bool = False
    """Belongs to a rule with a validator: threads here are not merged with others."""


@dataclass(frozen=True, slots=True)
class NfaEntry:
    """Threads may start at `position` where `left` (`any`, `word`, `number`, `edge`) holds."""

    left: str
    position: int


class Nfa:
    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.rules: list[Rule] = []
        self.entries: list[NfaEntry] = []
        self.shapes: list[Node] = []
        """Patterns of matches with their cues, for `safety.matching.prefilter`; phrases are not among them."""
        self.openings: list[Node] | None = []
        """Patterns of the beginnings of phrases; None if there are too many for a prefilter to help."""
        self._written = hashlib.sha256()
        self._roots: dict[str, int] = {}
        self._children: dict[tuple[int, str], int] = {}
        self._trie_size = 0
        self._closures: dict[int, frozenset[int]] = {}

    @property
    def fingerprint(self) -> str:
        """Return a digest of all that was added, in order; the same in every process."""
        return self._written.hexdigest()

    def _note(self, *parts: object) -> None:
        self._written.update(repr(parts).encode())

    def add_rule(self, rule: Rule) -> int:
        self._note(
            "rule",
            rule.label,
            getattr(rule.valid, "__name__", None),
            getattr(rule.reveals, "__name__", None),
            *(("excludes",) if rule.excludes else ()),
        )
        self.rules.append(rule)
        return len(self.rules) - 1

    def add_pattern(
        self,
        rule: int,
        pattern: str,
        *,
        left: str = "",
        right: str = "",
        cue: str = "",
        tails: tuple[str, ...] = (),
        behind: tuple[str, ...] = (),
    ) -> None:
        """Add a pattern.

        `left` and `right` override the anchors written in it (`number`: beside no digit, also not past a point or
        dash). `cue` is a pattern that must come right before, `tails` are texts one of which must follow, `behind` the
        characters that must, a class each, before the border `right`. None of them is part of the match, and a cue
        alone holds nothing back. Raises `ConfigurationError` for what
        `safety.matching.regex` refuses or a pattern too large.
        """
        self._note("pattern", rule, pattern, left, right, cue, tails, *((behind,) if behind else ()))
        parsed = parse(pattern)
        self._check_bound(rule, pattern, parsed)
        body = self._position()
        end = self._build(parsed.node, body)
        for tail in tails:
            self._behind(end, rule, [CharSet(((ord(symbol), ord(symbol)),), fold=True) for symbol in tail], "word")
        if behind:
            classes = [parse(one).node for one in behind]
            self._behind(end, rule, [one for one in classes if isinstance(one, CharSet)], right)
        elif not tails:
            self._accept(end, rule, right or parsed.right)
        for position in self.positions[body:]:
            position.checked = self.rules[rule].valid is not None
        entry, left = self._led(cue, body, left) if cue else (body, left)
        self.shapes.append(Concat((*([parse(cue).node] if cue else []), parsed.node, *_following(tails))))
        self.entries.append(NfaEntry(left or parsed.left, entry))

    def add_address(self, rule: int, *, plain: str, dotted: str, rest: str, limits: tuple[int, int]) -> None:
        """Add addresses `head@rest`. The head is the longest run before the sign: up to `limits[0]` characters of
        `plain`, or up to `limits[1]` with characters of `dotted` among them. Both are patterns of one character."""
        self._note("address", rule, plain, dotted, rest, limits)
        entry, run, broken = self._position(), self._position(), self._position()
        one, other = parse(plain).node, parse(dotted).node
        assert isinstance(one, CharSet)
        assert isinstance(other, CharSet)
        self.positions[entry].sets = [(one, run)]
        self.positions[run].sets = [(one, run), (other, broken)]
        self.positions[broken].sets = [(one, broken), (other, broken)]
        parsed = parse(rest)
        # Each head has its own copy of the rest: one's start must not stand for the other's.
        for head, limit in zip((run, broken), limits, strict=True):
            body = self._position()
            self._accept(self._build(parsed.node, body), rule, parsed.right)
            self.positions[head].slide = self.positions[self._waiting(head, body)].slide = limit
        self.shapes.append(Concat((one, RegexRepeat(Alternatives((one, other)), 0, None), parsed.node)))
        self.entries.append(NfaEntry("any", entry))

    def add_phrase(self, rule: int, phrase: str, *, borders: bool = True, evasions: bool = True) -> None:
        """Add a phrase. Phrase and text are compared after folding by `safety.matching.symbols.wide`.

        With `evasions`, phrases of enough letters also match with digits for letters, emphasis marks inside, and all
        letters spaced out. Raises `ConfigurationError` for a phrase that folds to nothing.
        """
        self._note("phrase", rule, phrase, borders, evasions)
        symbols = " ".join("".join(map(text.wide, phrase)).split())
        if not symbols:
            raise ConfigurationError(f"blocklist phrase {phrase!r} has no visible characters; remove it")
        letters = sum(2 if text.is_unspaced(s) else s.isalpha() for s in symbols)
        evasions = evasions and letters >= EVADED_LETTERS
        left, right = ("word" if borders and text.is_word(symbols[i]) else "any" for i in (0, -1))
        self._note_opening(symbols, evasions=evasions)
        accept = Accept(rule, right)
        self._spell(f"{left} leet" if evasions else left, left, symbols, accept, evasions=evasions)
        if evasions:
            apart = _SPACE.join(filter(str.strip, map(text.wide, phrase)))
            self._spell(f"{left} spaced", left, apart, accept, evasions=True)

    def _note_opening(self, symbols: str, *, evasions: bool) -> None:
        """Add the pattern of the phrase's first symbols, with the marks that may stand between them."""
        if self.openings is None:
            return
        between = RegexRepeat(characters(_written(" ", evasions=evasions) + (_EMPHASIS + _SPACERS) * evasions), 0, None)
        letters = [s for s in symbols[:OPENING] if s != " "]
        parts: list[Node] = [characters(_written(letters[0], evasions=evasions))]
        for letter in letters[1:]:
            parts += [between, characters(_written(letter, evasions=evasions))]
        self.openings.append(Concat(tuple(parts)))
        if len(self.openings) > MOST_OPENINGS:
            self.openings = None

    def _spell(self, root: str, left: str, symbols: str, accept: Accept, *, evasions: bool) -> None:
        at = self._root(root, left)
        for n, symbol in enumerate(symbols):
            at = self._branch(at, symbol, evasions=evasions, last=n == len(symbols) - 1)
        if accept not in self.positions[at].accepts:
            self.positions[at].accepts += (accept,)

    @property
    def has_phrases(self) -> bool:
        return bool(self._roots)

    def closure(self, position: int) -> frozenset[int]:
        """Return the positions reached without reading a symbol, without those that neither read nor accept."""
        found = self._closures.get(position)
        if found is None:
            found = self._closures[position] = self._closure(position)
        return found

    def distances(self) -> list[tuple[int, int] | None]:
        """Return for each position (fewest symbols to a match, rule of that match); None if it leads to no match."""
        sources: list[list[tuple[int, int]]] = [[] for _ in self.positions]  # (symbols read, position) by target
        for q, position in enumerate(self.positions):
            for target in position.empty:
                sources[target].append((0, q))
            for target in {t for _, t in position.sets} | {t for found in position.chars.values() for t in found}:
                sources[target].append((1, q))
        found: list[tuple[int, int] | None] = [None] * len(self.positions)
        todo = deque((0, q, position.accepts[0].rule) for q, position in enumerate(self.positions) if position.accepts)
        while todo:
            missing, q, rule = todo.popleft()
            if found[q] is None:
                found[q] = missing, rule
                for read, source in sources[q]:
                    (todo.append if read else todo.appendleft)((missing + read, source, rule))
        return found

    def _closure(self, position: int) -> frozenset[int]:
        seen, todo = {position}, [position]
        while todo:
            for target in self.positions[todo.pop()].empty:
                if target not in seen:
                    seen.add(target)
                    todo.append(target)
        return frozenset(q for q in seen if self._useful(self.positions[q]))

    @staticmethod
    def _useful(position: Position) -> bool:
        return bool(position.sets or position.chars or position.accepts)

    def _root(self, name: str, left: str) -> int:
        root = self._roots.get(name)
        if root is None:
            root = self._roots[name] = self._position()
            self.entries.append(NfaEntry(left, root))
        return root

    def _branch(self, at: int, symbol: str, *, evasions: bool, last: bool) -> int:
        target = self._children.get((at, symbol))
        if target is None:
            target = self._children[at, symbol] = self._position()
            self._trie_size += 1
            for written in _written(symbol, evasions=evasions):
                self._edge(at, written, target)
            if symbol in (" ", _SPACE):  # a run of white space is one
                for written in _written(symbol, evasions=evasions):
                    self._edge(target, written, target)
        if evasions and not last and symbol != _SPACE:
            for mark in _EMPHASIS:
                self._edge(target, mark, target)
        return target

    def _edge(self, at: int, symbol: str, target: int) -> None:
        chars = self.positions[at].chars
        if target not in chars.get(symbol, ()):
            chars[symbol] = (*chars.get(symbol, ()), target)

    def _accept(self, at: int, rule: int, right: str) -> None:
        self.positions[at].accepts += (Accept(rule, right),)
        if right == "number":  # `1.` may end a sentence or go on as `1.5`: one symbol more decides
            after = self._position()
            self.positions[at].sets.append((_POINT, after))
            self.positions[after].accepts += (Accept(rule, "digitless", back=1),)

    def _behind(self, at: int, rule: int, classes: list[CharSet], right: str) -> None:
        """Accept `rule` at `at` where characters of `classes` follow, then the border `right`."""
        for one in classes:
            target = self._position()
            self.positions[at].sets.append((one, target))
            at = target
        self.positions[at].accepts += (Accept(rule, right, back=len(classes)),)

    def _led(self, cue: str, body: int, left: str) -> tuple[int, str]:
        """Add positions for `cue`, which end where `body` may begin. All of them slide, since no match has begun there
        yet. Return the first one, and the context that it may begin in."""
        parsed = parse(cue)
        entry = self._position()
        self._waiting(self._build(parsed.node, entry), body)
        for position in self.positions[entry:]:
            position.slide = 0
        return entry, left or parsed.left

    def _waiting(self, before: int, body: int) -> int:
        """Add a position after `before` that reads what `body` reads first, and that no position of the body leads
        to."""
        waiting = self._fork(before)
        for q in self._closure(body):
            self.positions[waiting].sets += self.positions[q].sets
        return waiting

    def _check_bound(self, rule: int, pattern: str, parsed: ParsedPattern) -> None:
        if self.rules[rule].valid is not None and longest(parsed.node) is None:
            raise ConfigurationError(f"pattern {pattern!r} has a validator but no longest match; bound its repeats")

    def _position(self) -> int:
        self.positions.append(Position())
        return len(self.positions) - 1

    def _build(self, node: Node, entry: int) -> int:
        """Wire `node` from `entry`; return the position after it."""
        if isinstance(node, CharSet):
            target = self._position()
            self.positions[entry].sets.append((node, target))
            return target
        if isinstance(node, RegexRepeat):
            return self._repeat(node, entry)
        if isinstance(node, Alternatives):
            return self._either(node, entry)
        assert isinstance(node, Concat)
        for part in node.parts:
            entry = self._build(part, entry)
        return entry

    def _either(self, node: Alternatives, entry: int) -> int:
        ends = [self._build(part, self._fork(entry)) for part in node.parts]
        joined = self._position()
        for end in ends:
            self.positions[end].empty.append(joined)
        return joined

    def _repeat(self, node: RegexRepeat, entry: int) -> int:
        for _ in range(node.low):
            entry = self._build(node.part, entry)
            self._check_size()
        if node.high is None:
            loop = self._fork(entry)
            self.positions[self._build(node.part, loop)].empty.append(loop)
            return self._fork(loop)
        ends = [entry]
        for _ in range(node.high - node.low):
            entry = self._build(node.part, self._fork(entry))
            ends.append(entry)
            self._check_size()
        joined = self._position()
        for end in ends:
            self.positions[end].empty.append(joined)
        return joined

    def _fork(self, position: int) -> int:
        target = self._position()
        self.positions[position].empty.append(target)
        return target

    def _check_size(self) -> None:
        if len(self.positions) - self._trie_size > MAX_STATES:
            raise ConfigurationError(
                f"the patterns need more than {MAX_STATES} states; lower the bounds of their repeats or split them"
            )


_POINT = CharSet(ranges=((ord("-"), ord("-")), (ord("."), ord("."))))


@lru_cache(maxsize=4096)
def _written(symbol: str, *, evasions: bool) -> str:
    """Return the symbols of a text that match one symbol of a phrase."""
    if symbol == _SPACE:
        return _SPACERS
    tables = (AMBIGUOUS, LEET) if evasions else (AMBIGUOUS,)
    return symbol + "".join(other for table in tables for other, letters in table.items() if symbol in letters)


def _following(tails: tuple[str, ...]) -> list[Node]:
    spelled = [Concat(tuple(CharSet(((ord(c), ord(c)),), fold=True) for c in tail)) for tail in tails]
    return [Alternatives(tuple(spelled))] if tails else []
