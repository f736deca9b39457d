"""Tokens that can come next, put together from parts that are the same wherever they occur.

A part is what can be read from a lexeme's state, or from inside tokens, up to the end of one rest of a rule. What
follows that rest is a hole, so the part does not depend on how deep a text is nested. The tokens that go on behind the
hole are looked for from there: masks of a long text are made of parts that are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import Exhausted, look, tick
from sluicegate.grammar.parsing.configurations import Configuration, Configurations
from sluicegate.grammar.parsing.frames import Outline, ParseFrame
from sluicegate.grammar.parsing.kernels import walk_known
from sluicegate.grammar.parsing.lexer import OVER, Flags
from sluicegate.grammar.reading.mask_builder import MaskBuilder
from sluicegate.grammar.token_ids import I32, NO_IDS
from sluicegate.grammar.vocabulary.trie import TrieNode, build_trie
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_SPARSE = 1_500
"""More tokens than this are kept as a bitmask."""
_MOST_NODES = 4_000_000
"""Nodes of one compiled walk: about 20 ms."""
_KEPT_BYTES = 64 << 20
_MOST_JOINED = 500
_MOST_CONFIGURATIONS = 30_000
_END = -1


class Places(NamedTuple):
    """Nodes of the trie inside tokens, behind which something new begins. Equal ones are the same object."""

    nodes: I32
    number: int


class TokenPart(NamedTuple):
    """Tokens as a bitmask or one by one, and where they may go on outside: behind hole n, `_END` = the whole text.
    `outer`: the same behind frames that something outside the automaton may follow."""

    row: I32 | None
    ids: I32
    exits: tuple[tuple[Places, int], ...]
    outer: tuple[tuple[Places, ParseFrame], ...]


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
        self._wanted: dict[Outline, tuple[Flags, bytes]] = {}
        self._parts: dict[tuple[int, ParseFrame, bytes], TokenPart] = {}
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
            outlines = self._outlines(frame)
            if frame.whole or not outlines:
                outlines = (*outlines, Outline(frames.end, ()))
            for outline in outlines:
                part = self._part(start, outline)
                yield part
                outer += part.outer
                for places, hole in part.exits:
                    behind = frames.end if hole == _END else outline.behind[hole]
                    if hole == _END:
                        outer.append((places, behind))
                    elif (places.number, behind) not in seen:
                        seen.add((places.number, behind))
                        pending.append((places, behind))

    def _outlines(self, frame: ParseFrame) -> tuple[Outline, ...]:
        if self.configurations.outside_terminals:  # values outside need what really follows them
            return (Outline(frame, ()),)
        return self.configurations.frames.outlines(frame)

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
            for known in (self._parts, self._places, self._tries, self._joined, self._wanted):
                known.clear()
            self.root = self._at(np.zeros(1, np.int32))
        self.configurations.renew(_MOST_CONFIGURATIONS)

    # --- one part -----------------------------------------------------------------------------------------------------

    def _part(self, start: int | Places, outline: Outline) -> TokenPart:
        wanted, name = self._wanted_behind(outline)
        key = (start if isinstance(start, int) else -1 - start.number, outline.frame, name)
        found = self._parts.get(key)
        if found is None:
            look()
            found = self._parts[key] = self._walk(start, outline.frame, wanted)
            self._kept += 300 + found.ids.nbytes + (0 if found.row is None else found.row.nbytes)
        return found

    def _wanted_behind(self, outline: Outline) -> tuple[Flags, bytes]:
        """Return the bytes (bool[256]) that can come behind the holes of `outline`, and a name for them."""
        known = self._wanted.get(outline)
        if known is None:
            lexer, frames = self.configurations.lexer, self.configurations.frames
            wanted = np.zeros(256, np.bool_)
            ends = bool(self.configurations.outside_terminals) or not outline.behind
            for frame in outline.behind:
                wanted |= self.configurations.firsts(frame)[0][lexer.classes]
                ends = ends or frames.opened(frame).is_whole
            if ends or any(member.whole for _, follow in outline.frame.items for member in follow.group):
                wanted |= self._wanted_end
            known = self._wanted[outline] = wanted, np.packbits(wanted).tobytes()
        return known

    def _walk(self, start: int | Places, frame: ParseFrame, wanted: Flags) -> TokenPart:
        configurations, vocabulary = self.configurations, self.vocabulary
        at = configurations.of([(start if isinstance(start, int) else OVER, frame)])
        nodes = self.root.nodes if isinstance(start, int) else start.nodes
        kinds = int(np.bitwise_or.reduce(configurations.lexer.kinds_of_bytes[wanted], initial=0))
        entries, states = ~nodes, np.full(len(nodes), at.number, np.int32)
        row = np.zeros(vocabulary.row_words, np.int32)
        tokens: list[I32] = []
        left: list[I32] = []
        count = 0
        while len(entries):
            with vocabulary.trails as (few, unknown, exits):
                found, n_unknown, n_left, seen = walk_known(
                    self._letters, self._nodes, vocabulary.trie.ids, configurations.table, configurations.lexer.classes,
                    configurations.loops, configurations.leaving, wanted, kinds, entries, states, row, few, unknown,
                    exits, _MOST_NODES,
                )  # fmt: skip
                if seen > _MOST_NODES or n_unknown > len(unknown) or n_left > len(exits):
                    raise Exhausted
                count += found
                if count <= _SPARSE:
                    tokens.append(few[:found].copy())
                left.append(exits[:n_left].copy())
                again = unknown[:n_unknown].copy()
            look()
            entries, states = again[:, 0].copy(), again[:, 1].copy()
            self._learn(again)
        ids = np.concatenate(tokens) if count <= _SPARSE else NO_IDS
        return self._made(row if count > _SPARSE else None, ids, np.concatenate(left))

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
                for hole in frames.holes(frame):
                    behind.setdefault(hole, []).append(nodes)
        exits = [(self._at(np.unique(np.concatenate(nodes))), hole) for hole, nodes in behind.items()]
        return TokenPart(row, ids, tuple(exits), tuple(outer))

    def _at(self, nodes: I32) -> Places:
        name = nodes.tobytes()
        found = self._places.get(name)
        if found is None:
            found = self._places[name] = Places(nodes.astype(np.int32), len(self._places))
        return found

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
