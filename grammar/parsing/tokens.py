"""Tokens that can come next, put together from parts that are the same wherever they occur.

A part is what can be read from a lexeme's state, or from inside tokens, up to the end of one rest of a rule. What
follows that rest is a hole, so the part does not depend on how deep a text is nested. The tokens that go on behind the
hole are looked for from there: masks of a long text are made of parts that are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import Exhausted, look, tick
from sluicegate.grammar.parsing.configurations import Configuration, Configurations
from sluicegate.grammar.parsing.frames import Outline, ParseFrame
from sluicegate.grammar.parsing.kernels import walk_known
from sluicegate.grammar.parsing.lexer import OVER, Flags
from sluicegate.grammar.reading.mask_builder import MaskBuilder
from sluicegate.grammar.token_ids import I32, NO_IDS, join
from sluicegate.grammar.vocabulary.trie import TrieNode, build_trie
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_SPARSE = 1_500
"""More tokens than this are kept as a bitmask."""
_MOST_NODES = 4_000_000
"""Nodes of one compiled walk: about 20 ms."""
_KEPT_BYTES = 64 << 20
_MOST_JOINED = 500
_MOST_CONFIGURATIONS = 30_000
_MOST_INNER = 250_000
"""Places inside tokens behind the first lexeme. More of them are of words that may be cut anywhere."""
_MOST_PAIRS = 2_000
_MOST_OF_LEXEME = 1_000_000
"""Nodes that one lexeme may see from places inside tokens; more are of words that may be cut anywhere, too."""
_MANY = 300
_FIRST = np.ones(1, np.bool_)
_NO_BYTES = np.empty(0, np.uint8)
_END = -1


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Nodes of the trie inside tokens, behind which something new begins. Equal ones are the same object."""

    nodes: I32
    number: int
    terminals: int
    """Terminals that can begin with a byte that comes next, as bits."""


class LexemePiece(NamedTuple):
    """Tokens that one lexeme reads, as a bitmask or one by one, and where it may end inside others."""

    row: I32 | None
    ids: I32
    places: Places


class VocabularyWalk(NamedTuple):
    """Tokens, as a bitmask or one by one, and pairs (node, state), see `walk_known`."""

    row: I32 | None
    ids: I32
    unknown: I32
    left: I32


class TokenPart(NamedTuple):
    """Tokens as a bitmask or one by one, and where they may go on outside: behind hole n, `_END` = the whole text.
    `outer`: the same behind frames that something outside the automaton may follow."""

    row: I32 | None
    ids: I32
    exits: tuple[tuple[Places, int], ...]
    outer: tuple[tuple[Places, ParseFrame], ...]


class _TooMany(Exception):
    """A lexeme may begin and end at too many places inside tokens to be looked at by itself."""


class TokenParts:
    """The parts of one grammar for one vocabulary. `wanted_end` bool[256]: bytes that what follows a text, or a
    terminal outside the automaton, can begin with."""

    def __init__(self, configurations: Configurations, vocabulary: Vocabulary, wanted_end: Flags) -> None:
        self.configurations = configurations
        self.vocabulary = vocabulary
        self._letters, self._nodes = vocabulary.trie.nodes
        self._wanted_end = wanted_end
        self._places: dict[bytes, Places] = {}
        self.root = self._at(np.zeros(1, np.int32))
        self._wanted: dict[int, Flags] = {}
        self._parts: dict[tuple[int, ParseFrame], TokenPart] = {}
        self._pieces: dict[tuple[int, int], LexemePiece | None] = {}
        self._tries: dict[int, TrieNode] = {}
        self._joined: dict[frozenset[int], tuple[list[I32], I32]] = {}
        self._kept = 0

    def add(self, at: Configuration, builder: MaskBuilder) -> list[tuple[Places, ParseFrame]]:
        """Add the tokens that stay inside the automaton; return where others may leave it, and the frame there, whose
        text may end or go on outside."""
        self._make_room()
        rows: dict[int, I32] = {}
        outer: list[tuple[Places, ParseFrame]] = []
        for part in self._all(at, outer):
            if part.row is not None:
                rows[id(part.row)] = part.row
            builder.add(part.ids)
        if rows:
            builder.rows.append(self._join(rows))
        return outer

    def _all(self, at: Configuration, outer: list[tuple[Places, ParseFrame]]) -> Iterator[TokenPart]:
        frames = self.configurations.frames
        pending: list[tuple[int | Places, ParseFrame]] = list(at.parts)
        seen: set[tuple[int, ParseFrame]] = set()
        while pending:
            tick()
            start, frame = pending.pop()
            # values outside need what really follows them
            outline = Outline(frame, ()) if self.configurations.outside_terminals else frames.outline(frame)
            part = self._part(start, outline.frame)
            yield part
            outer += part.outer
            for places, hole in part.exits:
                if hole == _END:
                    outer.append((places, frames.end))
                    continue
                if outline.behind[hole] is frames.end and not self.configurations.outside_terminals:
                    outer.append((places, frames.end))
                elif (places.number, outline.behind[hole]) not in seen:
                    seen.add((places.number, outline.behind[hole]))
                    pending.append((places, outline.behind[hole]))

    def _join(self, rows: dict[int, I32]) -> I32:
        if len(rows) == 1:
            return next(iter(rows.values()))
        key = frozenset(rows)
        known = self._joined.get(key)
        if known is None:
            if len(self._joined) >= _MOST_JOINED:
                self._joined.clear()
            parts = list(rows.values())  # kept, so that nothing else takes their ids
            known = self._joined[key] = parts, np.bitwise_or.reduce(parts)
        return known[1]

    def _make_room(self) -> None:
        if self._kept > _KEPT_BYTES:
            self._kept = 0
            for known in (self._parts, self._pieces, self._places, self._tries, self._joined):
                known.clear()
            self.root = self._at(np.zeros(1, np.int32))
        self.configurations.renew(_MOST_CONFIGURATIONS)

    # --- one part -----------------------------------------------------------------------------------------------------

    def _part(self, start: int | Places, frame: ParseFrame) -> TokenPart:
        key = (start if isinstance(start, int) else -1 - start.number, frame)
        found = self._parts.get(key)
        if found is None:
            look()
            try:
                found = self._gathered(start, frame)
            except _TooMany:
                found = None
            found = self._parts[key] = self._walked(start, frame) if found is None else found
            self._kept += 300 + found.ids.nbytes + (0 if found.row is None else found.row.nbytes)
        return found

    def _gathered(self, start: int | Places, frame: ParseFrame) -> TokenPart | None:
        """Put a part together from single lexemes; None where the ways to read tokens are too many for that."""
        frames = self.configurations.frames
        rows: dict[int, I32] = {}
        ids: list[I32] = []
        exits: dict[int, list[I32]] = {}
        outer: dict[tuple[Places, ParseFrame], None] = {}
        seen: set[tuple[int, ParseFrame]] = set()
        pending: list[tuple[Places, ParseFrame, int]] = []
        inner = 0

        def add(piece: LexemePiece, behind: ParseFrame, depth: int) -> None:
            if piece.row is not None:
                rows[id(piece.row)] = piece.row
            elif len(piece.ids):
                ids.append(piece.ids)
            if (piece.places.number, behind) not in seen:
                seen.add((piece.places.number, behind))
                pending.append((piece.places, behind, depth))

        if isinstance(start, int):
            add(self._piece(self.root, start), frame, int(start != OVER))
        else:
            pending.append((start, frame, 1))
        while pending:
            tick()
            places, at, depth = pending.pop()
            if not len(places.nodes):
                continue
            inner += len(places.nodes) if depth > 1 else 0
            if inner > _MOST_INNER or len(seen) > _MOST_PAIRS:
                return None
            self._leave(places, at, exits, outer)
            for terminal in _numbers(frames.opened(at).bits & places.terminals):
                piece = self._begun(places, terminal)
                if piece is not None:
                    behind = frames.shift(at, terminal) if len(piece.places.nodes) else frames.end
                    add(piece, behind, depth + 1)
            for terminal in self.configurations.ignored:
                if places.terminals >> terminal & 1:
                    piece = self._begun(places, terminal)
                    if piece is not None:
                        add(piece, at, depth + 1)
        row = self._join(rows) if rows else None
        return TokenPart(row, join(ids), self._united(exits), tuple(outer))

    def _leave(
        self,
        places: Places,
        at: ParseFrame,
        exits: dict[int, list[I32]],
        outer: dict[tuple[Places, ParseFrame], None],
    ) -> None:
        """Note what is outside the automaton, or unknown, behind `places`."""
        configurations = self.configurations
        frames = configurations.frames
        ends = configurations.open_end and frames.opened(at).is_whole
        if configurations.outside_terminals:
            if ends or configurations.leads_outside(at):
                outer[places, at] = None
            return
        if ends:
            exits.setdefault(_END, []).append(places.nodes)
        for hole in frames.opened(at).holes:
            exits.setdefault(hole, []).append(places.nodes)

    def _begun(self, places: Places, terminal: int) -> LexemePiece | None:
        """Return what `terminal` reads from `places` on; None where it is no lexeme, or reads nothing there."""
        key = (places.number, ~terminal)
        if key not in self._pieces:
            lexer = self.configurations.lexer
            found = None if lexer.lexemes[terminal] is None else self._piece(places, lexer.start(terminal))
            empty = found is None or (found.row is None and not len(found.ids) and not len(found.places.nodes))
            self._pieces[key] = None if empty else found
        return self._pieces[key]

    def _piece(self, places: Places, state: int) -> LexemePiece:
        """Return what a lexeme in `state` reads from `places` on."""
        key = (places.number, state)
        found = self._pieces.get(key)
        if found is None:
            if key in self._pieces:
                raise _TooMany
            look()
            found = self._pieces[key] = self._lexeme(places, state)
            if found is None:
                raise _TooMany
            self._kept += 300 + found.ids.nbytes + (0 if found.row is None else found.row.nbytes)
        return found

    def _lexeme(self, places: Places, state: int) -> LexemePiece | None:
        lexer = self.configurations.lexer
        if state == OVER:
            return LexemePiece(None, NO_IDS, places)
        wanted = self._wanted_behind(lexer.terminal(state))
        states = np.full(len(places.nodes), state, np.int32)
        most = _MOST_NODES if places is self.root else _MOST_OF_LEXEME
        try:
            walk = self._walk(lexer.next, lexer.loops, lexer.accepting, wanted, ~places.nodes, states, most)
        except Exhausted:
            return None
        nodes = _distinct(walk.left[:, 0]) if len(places.nodes) > 1 else walk.left[:, 0]
        return LexemePiece(walk.row, walk.ids, self._at(nodes))

    def _wanted_behind(self, terminal: int) -> Flags:
        """Return the bytes (bool[256]) that may come behind `terminal` in some text."""
        found = self._wanted.get(terminal)
        if found is None:
            configurations, symbols = self.configurations, self.configurations.frames.symbols
            lexer = configurations.lexer
            followers = symbols.followers[terminal]
            wanted = np.zeros(256, np.bool_)
            if terminal in configurations.ignored:
                followers = -1
            for other in range(len(symbols.terminals)):
                if followers >> other & 1 or other in configurations.ignored:
                    wanted |= lexer.firsts[other][lexer.classes]
                    if other == symbols.hole or other in configurations.outside_terminals:
                        wanted |= self._wanted_end
            found = self._wanted[terminal] = wanted
        return found

    def _walked(self, start: int | Places, frame: ParseFrame) -> TokenPart:
        """Walk the automaton of configurations, which puts together all ways to read a token."""
        configurations = self.configurations
        at = configurations.of([(start if isinstance(start, int) else OVER, frame)])
        nodes = self.root.nodes if isinstance(start, int) else start.nodes
        entries, states = ~nodes, np.full(len(nodes), at.number, np.int32)
        every = np.ones(256, np.bool_)
        walks = []
        while len(entries):
            walk = self._walk(
                configurations.table,
                configurations.loops,
                configurations.leaving,
                every,
                entries,
                states,
                _MOST_NODES,
            )
            walks.append(walk)
            look()
            entries, states = walk.unknown[:, 0].copy(), walk.unknown[:, 1].copy()
            self._learn(walk.unknown)
        rows = [walk.row for walk in walks if walk.row is not None]
        row = np.bitwise_or.reduce(rows) if rows else None
        return self._made(row, join([walk.ids for walk in walks]), np.concatenate([walk.left for walk in walks]))

    def _walk(
        self,
        table: I32,
        loops: npt.NDArray[np.int64],
        leaving: Flags,
        wanted: Flags,
        entries: I32,
        states: I32,
        most: int,
    ) -> VocabularyWalk:
        """See `walk_known`. Raises `Exhausted` where that ends early."""
        vocabulary, lexer = self.vocabulary, self.configurations.lexer
        kinds = int(np.bitwise_or.reduce(lexer.kinds_of_bytes[wanted], initial=0))
        row = np.zeros(vocabulary.row_words, np.int32)
        with vocabulary.trails as (few, unknown, left):
            count, n_unknown, n_left, seen = walk_known(
                self._letters, self._nodes, vocabulary.trie.ids, table, lexer.classes, loops, leaving, wanted, kinds,
                entries, states, row, few, unknown, left, most,
            )  # fmt: skip
            if seen > most or n_unknown > len(unknown) or n_left > len(left):
                raise Exhausted
            sparse = count <= _SPARSE
            ids = few[:count].copy() if sparse else NO_IDS
            return VocabularyWalk(None if sparse else row, ids, unknown[:n_unknown].copy(), left[:n_left].copy())

    def _learn(self, unknown: I32) -> None:
        """Take the steps that a walk did not know."""
        configurations = self.configurations
        count = configurations.lexer.count
        classes = configurations.lexer.classes[self._letters[unknown[:, 0]]]
        for code in set((unknown[:, 1].astype(np.int64) * count + classes).tolist()):
            configurations.step(configurations.all[code // count], code % count)

    def _made(self, row: I32 | None, ids: I32, left: I32) -> TokenPart:
        """Group the places (node, state) where the automaton may be left."""
        configurations = self.configurations
        frames, lexer = configurations.frames, configurations.lexer
        behind: dict[int, list[I32]] = {}
        outer: list[tuple[Places, ParseFrame]] = []
        for number in sorted(set(left[:, 1].tolist())):
            nodes = left[left[:, 1] == number, 0]
            for state, frame in configurations.all[number].parts:
                if not lexer.accepts[state]:
                    continue
                ends = configurations.open_end and frames.opened(frame).is_whole
                if configurations.outside_terminals:
                    if ends or configurations.leads_outside(frame):
                        outer.append((self._at(nodes), frame))
                    continue
                if ends:
                    behind.setdefault(_END, []).append(nodes)
                for hole in frames.opened(frame).holes:
                    behind.setdefault(hole, []).append(nodes)
        return TokenPart(row, ids, self._united(behind), tuple(outer))

    def _united(self, exits: dict[int, list[I32]]) -> tuple[tuple[Places, int], ...]:
        """Return one set of places for each hole."""
        return tuple(
            [(self._at(n[0] if len(n) == 1 else _distinct(np.concatenate(n))), hole) for hole, n in exits.items()]
        )

    def _at(self, nodes: I32) -> Places:
        name = nodes.tobytes()
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = Places(nodes.astype(np.int32), len(self._places), self._possible(nodes))
        return found

    def _possible(self, nodes: I32) -> int:
        lexer = self.configurations.lexer
        if len(nodes) == 1:
            letters = self._letters[self._nodes[nodes[0], 0] : self._nodes[nodes[0], 1]]
        elif len(nodes) < _MANY:
            spans = [self._letters[low:high] for low, high in self._nodes[nodes, :2].tolist()]
            letters = np.concatenate([_NO_BYTES, *spans])
        else:
            return -1
        classes = np.zeros(lexer.count, np.bool_)
        classes[lexer.classes[letters]] = True
        begun = (lexer.firsts & classes).any(axis=1)
        return int.from_bytes(np.packbits(begun, bitorder="little").tobytes(), "little")

    # --- what goes on outside -----------------------------------------------------------------------------------------

    def remainders(self, places: Places) -> TrieNode:
        """Return what tokens spell behind `places`, as a small trie of those that begin with a byte that is wanted."""
        known = self._tries.get(places.number)
        if known is None:
            found = list(self._remainders(places.nodes.tolist()))
            known = self._tries[places.number] = build_trie(found)
            self._kept += 500 * len(found)
        return known

    def _remainders(self, places: Iterable[int]) -> Iterator[tuple[bytes, int]]:
        trie, words, nodes = self.vocabulary.trie, self.vocabulary.words, self._nodes
        for place in places:
            for below in range(nodes[place, 0], nodes[place, 1]) if place else ():
                tick()
                if not self._wanted_end[self._letters[below]]:
                    continue
                node = nodes[below, 7]
                cut = int(trie.depth[node]) - 1
                for token in trie.ids[trie.first[node] : trie.first[trie.skip[node]]].tolist():
                    yield words[token][cut:], token


def _distinct(nodes: I32) -> I32:
    """The same as `np.unique`, which hashes and takes several times as long."""
    ordered = np.sort(nodes)
    return ordered[np.concatenate([_FIRST, ordered[1:] != ordered[:-1]])] if len(ordered) else ordered


def _numbers(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest
