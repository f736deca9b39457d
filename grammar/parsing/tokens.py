"""Tokens that can come next, put together from parts that are the same wherever they occur.

A part is what can be read from a lexeme's state, or from inside tokens, up to the end of one rest of a rule. What
follows that rest is a hole, so the part does not depend on how deep a text is nested. The tokens that go on behind the
hole are looked for from there: masks of a long text are made of parts that are known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import WorkExhausted, charge, look, tick
from sluicegate.grammar.parsing.configurations import Configuration, Configurations
from sluicegate.grammar.parsing.frames import FrameTemplate, ParseFrame
from sluicegate.grammar.parsing.kernels import walk_known
from sluicegate.grammar.parsing.lexer import Flags
from sluicegate.grammar.parsing.lexer_tables import OVER
from sluicegate.grammar.parsing.pieces import MOST_NODES, BoundaryNodes, LexemePieces, Start, distinct
from sluicegate.grammar.parsing.walks import SPARSE
from sluicegate.grammar.reading.mask_builder import MaskBuilder
from sluicegate.grammar.token_ids import I32, NO_IDS, join
from sluicegate.grammar.vocabulary.trie import build_trie
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_KEPT_BYTES = 64 << 20
_MOST_JOINED = 500
_MOST_CONFIGURATIONS = 30_000
_FEW_PIECES = 1_200
_FEW_CONFIGURATIONS = 40
"""Most configurations of a first try of each way to make a part: some milliseconds, and one of the ways often needs no
more. What a try has computed is kept."""
_MORE_CONFIGURATIONS = 100
"""The same where pieces are large: single characters that may be cut anywhere make few configurations, if any do."""
_MOST_APART = 12
"""Most lexeme states of a text that are looked at one by one, so that what was found for each can be used again."""
_END = -1
_OF_WALK, _OF_STEP = 20, 3
_OF_EXIT = 110
"""Bytes of an exit of a part beside its places."""
_NODES_A_CHARGE, _LEFT_A_CHARGE = 50, 20
"""Nodes that a walk visits, and places where it may leave the automaton, which are sorted and kept, per charge."""


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
    exits: tuple[tuple[tuple[int, ...], int], ...]
    outer: tuple[tuple[BoundaryNodes, ParseFrame], ...]


class TokenParts:
    """The parts of one grammar for one vocabulary. `wanted_end` bool[256]: bytes that what follows a text, or a
    terminal outside the automaton, can begin with."""

    def __init__(self, configurations: Configurations, vocabulary: Vocabulary, wanted_end: Flags) -> None:
        self.configurations = configurations
        self.vocabulary = vocabulary
        self._letters, self._nodes = vocabulary.trie.nodes
        self._wanted_end = wanted_end
        self._pieces = LexemePieces(configurations, vocabulary, wanted_end)
        self._parts: dict[tuple[Start, ParseFrame], TokenPart] = {}
        self._tries: dict[int, TrieNode] = {}
        self._joined: dict[frozenset[int], tuple[list[I32], I32]] = {}
        self._kept = 0
        self._walks_first = False

    def add(self, at: Configuration, builder: MaskBuilder) -> list[tuple[BoundaryNodes, ParseFrame]]:
        """Add the tokens that stay inside the automaton; return where others may leave it, and the frame there, whose
        text may end or go on outside."""
        self._make_room()
        builder.tables[id(self)] = self
        rows: dict[int, I32] = {}
        outer: list[tuple[BoundaryNodes, ParseFrame]] = []
        for part in self._all(at, outer):
            if part.row is not None:
                rows[id(part.row)] = part.row
            builder.add(part.ids)
        if rows:
            builder.rows.append(self._join(rows))
        return outer

    @property
    def learned_bytes(self) -> int:
        return self._kept + self._pieces.bytes_kept + self._pieces.bytes_at_first + self.configurations.bytes_kept

    def _all(self, at: Configuration, outer: list[tuple[BoundaryNodes, ParseFrame]]) -> Iterator[TokenPart]:
        frames = self.configurations.frames
        pending = _starts(at)
        seen: set[tuple[Start, ParseFrame]] = set()
        while pending:
            tick()
            start, frame = pending.pop()
            # values outside need what really follows them
            outline = FrameTemplate(frame, ()) if self.configurations.outside_terminals else frames.outline(frame)
            part = self._part(start, outline.frame)
            charge(_OF_STEP + len(part.exits))
            yield part
            outer += part.outer
            for places, hole in part.exits:
                behind = frames.end if hole == _END else outline.behind[hole]
                if behind is not frames.end:
                    if (places, behind) not in seen:
                        seen.add((places, behind))
                        pending.append((places, behind))
                elif self.configurations.open_end:
                    outer.append((self._pieces.united(places), behind))

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
        if self._kept + self._pieces.bytes_kept > _KEPT_BYTES:
            self._kept = 0
            for known in (self._parts, self._tries, self._joined):
                known.clear()
            self._pieces.renew()
        self.configurations.renew(_MOST_CONFIGURATIONS)

    # --- one part -----------------------------------------------------------------------------------------------------

    def _part(self, start: Start, frame: ParseFrame) -> TokenPart:
        found = self._parts.get((start, frame))
        if found is None:
            found = self._parts[start, frame] = self._new_part(start, frame)
            self._kept += 300 + found.ids.nbytes + (0 if found.row is None else found.row.nbytes)
            self._kept += sum([_OF_EXIT + 8 * len(places) for places, _ in found.exits])
        return found

    def _new_part(self, start: Start, frame: ParseFrame) -> TokenPart:
        """Try both ways for a short time, the one that was right last time first; then for a long time."""
        found = None if self._walks_first else self._gathered(start, frame, _FEW_PIECES)
        if found is None:
            found = self._walked(start, frame, _MORE_CONFIGURATIONS if self._pieces.saw_many else _FEW_CONFIGURATIONS)
            self._walks_first = found is not None
        if found is None:
            found = self._gathered(start, frame, None)
        if found is None:
            found = self._walked(start, frame, None)
            assert found is not None
        return found

    def _gathered(self, start: Start, frame: ParseFrame, most_pieces: int | None) -> TokenPart | None:
        """Put a part together from single lexemes; None where the ways to read tokens are too many for that."""
        found = self._pieces.gathered(start, frame, most_pieces)
        if found is None:
            return None
        if self.configurations.outside_terminals:
            outer = tuple([(self._pieces.places(places), at) for places, at in found.exits])
            return TokenPart(found.row, found.ids, (), outer)
        exits: dict[int, list[int]] = {}
        for places, at in found.exits:
            holes = self._holes(at)
            charge(1 + len(holes) / 2)
            for hole in holes:
                exits.setdefault(hole, []).append(places)
        return TokenPart(found.row, found.ids, _by_hole(exits), ())

    def _holes(self, frame: ParseFrame) -> tuple[int, ...]:
        """Return the unknown continuations after `frame`, with `_END` if the text may end there and go on."""
        opened = self.configurations.frames.opened(frame)
        return (*opened.holes, _END) if self.configurations.open_end and opened.is_whole else opened.holes

    def _walked(self, start: Start, frame: ParseFrame, most_new: int | None) -> TokenPart | None:
        """Walk the automaton of configurations, which puts together all ways to read a token; None where more than
        `most_new` of them are new."""
        configurations = self.configurations
        known = len(configurations.all)
        inside = start if isinstance(start, frozenset) else (start,) if isinstance(start, int) else (OVER,)
        at = configurations.of([(state, frame) for state in inside])
        nodes = self._pieces.united(start if isinstance(start, tuple) else (self._pieces.root,)).nodes
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
                MOST_NODES,
            )
            walks.append(walk)
            look()
            entries, states = walk.unknown[:, 0].copy(), walk.unknown[:, 1].copy()
            self._learn(walk.unknown)
            if most_new is not None and len(configurations.all) > known + most_new:
                return None
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
        """Walk as `walk_known` does, in room that is kept. Raises `WorkExhausted` where that ends early."""
        vocabulary, lexer = self.vocabulary, self.configurations.lexer
        row = np.zeros(vocabulary.row_words, np.int32)
        with vocabulary.trails as (few, unknown, left):
            count, n_unknown, n_left, seen = walk_known(
                self._letters, self._nodes, vocabulary.trie.ids, table, lexer.classes, loops, leaving, wanted,
                entries, states, row, few, unknown, left, most,
            )  # fmt: skip
            charge(_OF_WALK + seen / _NODES_A_CHARGE + n_left / _LEFT_A_CHARGE)
            if seen > most or n_unknown > len(unknown) or n_left > len(left):
                raise WorkExhausted
            sparse = count <= SPARSE
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
        accepts = configurations.lexer.accepts
        exits: dict[int, list[int]] = {}
        outer: list[tuple[BoundaryNodes, ParseFrame]] = []
        left = left[np.argsort(left[:, 1], kind="stable")]
        numbers, begins = np.unique(left[:, 1], return_index=True)
        for number, nodes in zip(numbers.tolist(), np.split(left[:, 0], begins[1:]), strict=False):
            ended = [frame for state, frame in configurations.all[number].parts if accepts[state]]
            places = self._pieces.settled(distinct(nodes))
            if configurations.outside_terminals:
                outer += [(places, frame) for frame in ended if configurations.may_leave(frame)]
                continue
            for hole in {hole for frame in ended for hole in self._holes(frame)}:
                exits.setdefault(hole, []).append(places.number)
        return TokenPart(row, ids, _by_hole(exits), tuple(outer))

    # --- what goes on outside -----------------------------------------------------------------------------------------

    def remainders(self, places: BoundaryNodes) -> TrieNode:
        """Return the parts of tokens after `places`, as a small trie of those that begin with a wanted byte."""
        known = self._tries.get(places.number)
        if known is None:
            found = list(self._remainders(places.nodes))
            known = self._tries[places.number] = build_trie(found)
            self._kept += 500 * len(found)
        return known

    def _remainders(self, places: I32) -> Iterator[tuple[bytes, int]]:
        trie, words, nodes = self.vocabulary.trie, self.vocabulary.words, self._nodes
        below = self._below(places[places != 0])
        for node in nodes[below[self._wanted_end[self._letters[below]]], 7].tolist():
            cut = int(trie.depth[node]) - 1
            found = trie.ids[trie.first[node] : trie.first[trie.skip[node]]].tolist()
            charge(1 + len(found) / 2)
            for token in found:
                yield words[token][cut:], token

    def _below(self, places: I32) -> npt.NDArray[np.int64]:
        """Return the nodes right below all of `places`: one look at a time at each of their letters, some hundreds in
        thousands of places, would take most of what a call may."""
        begins = self._nodes[places, 0].astype(np.int64)
        sizes = self._nodes[places, 1] - begins
        total = int(sizes.sum())
        charge(_OF_WALK + len(places) / _LEFT_A_CHARGE + total / _NODES_A_CHARGE)
        found: npt.NDArray[np.int64] = np.arange(total) + np.repeat(begins - (np.cumsum(sizes) - sizes), sizes)
        return found


def _starts(at: Configuration) -> list[tuple[Start, ParseFrame]]:
    """Return the parts of a configuration; lexeme states in front of one frame together where there are many."""
    if len(at.parts) <= _MOST_APART:
        return list(at.parts)
    found: list[tuple[Start, ParseFrame]] = []
    states: dict[ParseFrame, list[int]] = {}
    for state, frame in at.parts:
        if state == OVER:
            found.append((state, frame))
        else:
            states.setdefault(frame, []).append(state)
    return [*found, *((frozenset(group) if len(group) > 1 else group[0], frame) for frame, group in states.items())]


def _by_hole(exits: dict[int, list[int]]) -> tuple[tuple[tuple[int, ...], int], ...]:
    return tuple([(tuple(sorted(set(places))), hole) for hole, places in exits.items()])
