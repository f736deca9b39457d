"""What single lexemes read of a vocabulary, in flat tables that grow, and parts of masks put together from that."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import charge, left, look, tick
from sluicegate.grammar.budget.room import room, twice
from sluicegate.grammar.parsing import gathering as g
from sluicegate.grammar.parsing import walks
from sluicegate.grammar.parsing.configurations import Configurations
from sluicegate.grammar.parsing.following import BITS, facts_of
from sluicegate.grammar.parsing.frames import ParseFrame
from sluicegate.grammar.parsing.lexer import Flags
from sluicegate.grammar.parsing.lexer_tables import OVER
from sluicegate.grammar.parsing.loops import MASK_KERNELS, load
from sluicegate.grammar.token_ids import I32, NO_IDS
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

I64 = npt.NDArray[np.int64]
_Array = TypeVar("_Array", bound="npt.NDArray[Any]")
MOST_NODES = 4_000_000
"""Most nodes of one compiled walk: about 20 ms."""
MOST_PAIRS = 1 << 13
MOST_INNER = 1_000_000
"""Most places inside tokens behind the first lexeme. Grammars that exceed it have words that may be split anywhere."""
MOST_PIECES = 8_000
"""Most new pieces of one part; a grammar of C makes 1,100."""
_MOST_OF_LEXEME = 300_000
"""Most nodes that one lexeme may visit from places inside tokens. Grammars that exceed it also have words that may be
split anywhere."""
_MOST_FIRST_NODES = 90_000
"""Most nodes of a first try; the others of more follow words that may be cut anywhere."""
_NODES_A_RUN = 100_000
"""Nodes after which a compiled loop pauses for a check of the clock: some milliseconds."""
_FOLLOWERS_A_CHARGE = 600
"""Pairs of terminals examined per charge."""
_OF_RUN, _NODES_A_CHARGE, _WAITING_A_CHARGE = 10, 22, 2
"""Work charged for a run of the loop, and per unit of charge the nodes, and the pairs that wait for a frame."""
_BYTES_A_CHARGE = 5_000
"""Bytes that tables grow by, copies included, per unit of charge."""
_FIRST = np.ones(1, np.bool_)
_FIRST_PAGES = 60_000
"""Bytes of the first pages of tables that lie in room of their own, and of smaller tables."""


Start = int | frozenset[int] | tuple[int, ...]
"""A lexeme state, several of them, or numbers of sets of places inside tokens."""


class BoundaryNodes(NamedTuple):
    """Nodes of the trie inside tokens, behind which something new begins. Equal ones have the same number."""

    nodes: I32
    number: int


class GatheredTokens(NamedTuple):
    """Tokens as a bitmask or one by one, and (number of places, frame) where something outside may come."""

    row: I32 | None
    ids: I32
    exits: list[tuple[int, ParseFrame]]


class LexemePieces:
    """The pieces of one grammar for one vocabulary, made as they are asked for; for the tables see `walks`.

    `wanted_end` bool[256]: bytes that what follows a text, or a terminal outside the automaton, can begin with.
    """

    def __init__(self, configurations: Configurations, vocabulary: Vocabulary, wanted_end: Flags) -> None:
        load(*MASK_KERNELS)
        self._configurations = configurations
        self._vocabulary = vocabulary
        lexer = configurations.lexer
        self._letters, self._nodes = vocabulary.trie.nodes
        count = len(lexer.lexemes)
        self._words = -(-count // BITS)
        self._starts = np.array(lexer.starts, np.int32)
        symbols = configurations.frames.symbols
        charge(symbols.followers.size / _FOLLOWERS_A_CHARGE)
        self._owners, self._wanted, self._class_bits, self._ignored, self._closed = facts_of(
            symbols.followers, self._starts, np.array([*lexer.offsets, len(lexer.next)], np.int32), lexer.next,
            lexer.accepting, lexer.classes, np.array(configurations.ignored, np.int32),
            np.array([*configurations.outside_terminals], np.int32), symbols.hole, wanted_end,
        )  # fmt: skip
        self._pairs: I64 = room((MOST_PAIRS, 4), np.int64)
        self._waiting: I32 = room((MOST_PAIRS, 4), np.int32)
        self._exits: I32 = room((MOST_PAIRS, 2), np.int32)
        self._state = np.zeros(g.N_STATE, np.int64)
        self._path = np.empty((5, 1024), np.int32)
        self.saw_many = False
        """Whether the last part was given up because of the nodes that it visited."""
        self._marks: I32 = room((g.MARKED, len(self._nodes) // 32 + 1), np.int32)
        self._marked = np.empty(g.MARKED, np.int32)
        self.renew()

    def renew(self) -> None:
        """Forget all pieces; sets of places have new numbers from now on."""
        words = self._words
        self._frames: list[ParseFrame] = []
        self._frame_numbers: dict[ParseFrame, int] = {}
        self._frame_bits = np.zeros((64, words), np.int64)
        self._leaving = np.zeros(64, np.bool_)
        self._shift_keys, self._shift_values = np.zeros(1 << 10, np.int64), np.zeros(1 << 10, np.int32)
        self._shifts = 0
        # what is not looked at before it is written is left as it is: clearing room takes longer than a small grammar
        self._pool: I32 = room((1 << 19,), np.int32)
        self._places, self._place_bits = np.empty((1 << 9, 4), np.int64), np.empty((1 << 9, words), np.int64)
        self._slots = np.zeros(1 << 11, np.int64)
        self._begun = np.zeros(256, np.int32)
        self._keys, self._values = np.zeros(1 << 11, np.int64), np.empty(1 << 11, np.int32)
        self._pieces: I32 = room((1 << 11, 5), np.int32)
        self._ids: I32 = room((1 << 18,), np.int32)
        self._rows = np.zeros((2, self._vocabulary.row_words), np.int32)
        self._counts = np.zeros(7, np.int64)
        self._indexed: I32 = room((1 << 19,), np.int32)
        self._state[:] = 0
        self.root = self.settled(np.zeros(1, np.int32)).number

    @property
    def bytes_kept(self) -> int:
        counts = self._counts
        numbers = counts[walks.N_IDS] + counts[walks.N_NODES] + counts[walks.N_INDEXED]
        rows = counts[walks.N_ROWS] * self._rows.shape[1]
        return int(4 * (numbers + rows) + 60 * counts[walks.N_PIECES]) + 200 * len(self._frames)

    @property
    def bytes_at_first(self) -> int:
        """Return the bytes of the tables that are cleared before the first piece, and of the first pages of others."""
        cleared = (self._slots, self._keys, self._values, self._places, self._place_bits, self._shift_keys, self._rows)
        return sum([table.nbytes for table in cleared]) + _FIRST_PAGES

    # --- places -------------------------------------------------------------------------------------------------------

    def settled(self, nodes: I32) -> BoundaryNodes:
        """Return these nodes, which are distinct, and sorted or in the order of one walk, as a set of places."""
        while True:
            number = int(
                walks.settle(
                    nodes, len(nodes), self._letters, self._nodes, self._configurations.lexer.classes, self._class_bits,
                    self._pool, self._places, self._place_bits, self._slots, self._counts, self._begun,
                )
            )  # fmt: skip
            if number >= 0:
                return self.places(number)
            self._grow(len(nodes))

    def places(self, number: int) -> BoundaryNodes:
        low, high = self._places[number, :2].tolist()
        return BoundaryNodes(self._pool[low:high], number)

    def united(self, numbers: tuple[int, ...]) -> BoundaryNodes:
        """Return all places of some sets."""
        if len(numbers) == 1:
            return self.places(numbers[0])
        return self.settled(distinct(np.concatenate([self.places(number).nodes for number in numbers])))

    # --- parts --------------------------------------------------------------------------------------------------------

    def gathered(self, start: Start, frame: ParseFrame, most_pieces: int | None = None) -> GatheredTokens | None:
        """Return what can be read from states of lexemes, or from sets of places, in front of `frame`; None where the
        ways to read tokens are too many for that, or about `most_pieces` new pieces were made."""
        state, number = self._state, self._number(frame)
        part = int(state[g.PART]) + 1
        state[:] = 0
        state[g.PART] = part
        begins = NO_IDS
        if isinstance(start, tuple):
            if len(start) > MOST_PAIRS // 2:
                return None
            self._pairs[: len(start), 0] = start
            self._pairs[: len(start), 1:] = number, 1, -1
            state[g.N_PAIRS] = len(start)
        elif start == OVER:
            self._pairs[0] = self.root, number, 0, -1
            state[g.N_PAIRS] = 1
        else:
            begins = np.array([start] if isinstance(start, int) else sorted(start), np.int32)
            state[g.BEGIN], state[g.BEGIN_FRAME] = len(begins), number
        row = np.zeros(self._vocabulary.row_words, np.int32)
        taken = np.empty(walks.SPARSE, np.int32)
        if not self._followed(row, taken, begins, MOST_PIECES if most_pieces is None else most_pieces):
            return None
        count = int(state[g.N_TOKENS])
        exits = [(at, self._frames[number]) for at, number in self._exits[: state[g.N_EXITS]].tolist()]
        return (
            GatheredTokens(None, taken[:count].copy(), exits)
            if count <= walks.SPARSE
            else GatheredTokens(row, NO_IDS, exits)
        )

    def _followed(self, row: I32, taken: I32, begins: I32, most_pieces: int) -> bool:
        """Follow all pairs; False where they are too many."""
        self._state[g.LAST_PIECE] = self._counts[walks.N_PIECES] + most_pieces
        last_node = self._counts[walks.N_VISITED] + _MOST_FIRST_NODES
        self.saw_many = False
        seen = np.zeros(2 * MOST_PAIRS, np.int64)
        state = self._state
        while True:
            found = self._run(seen, row, taken, begins)
            if found == g.TOO_MANY:
                return False
            if found == g.NO_ROOM:
                self._grow(0)
            elif found == g.UNKNOWN_SHIFT:
                self._behind(int(state[g.ASKED_FRAME]), int(state[g.ASKED]))
            elif found == g.PAUSED:
                self.saw_many = most_pieces < MOST_PIECES and bool(self._counts[walks.N_VISITED] > last_node)
                if self.saw_many:
                    return False
            elif state[g.N_WAITING]:
                self._shift()
            else:
                return True

    def _run(self, seen: I64, row: I32, taken: I32, begins: I32) -> int:
        look()
        visited = int(self._counts[walks.N_VISITED])
        self._state[g.UNTIL] = visited + min(_NODES_A_RUN, int(_NODES_A_CHARGE * min(left(), _NODES_A_RUN)))
        lexer, vocabulary = self._configurations.lexer, self._vocabulary
        with vocabulary.trails as (few, _, room):
            found = g.gather(
                self._letters, self._nodes, vocabulary.trie.ids, lexer.next, lexer.classes, lexer.loops,
                lexer.accepting, self._starts, self._owners, self._wanted, self._class_bits,
                self._ignored, self._closed, self._frame_bits, self._leaving, self._shift_keys, self._shift_values,
                self._pool, self._places, self._place_bits, self._slots, self._keys, self._values, self._pieces,
                self._ids, self._rows, self._counts, self._indexed, room.reshape(-1), few, self._pairs, seen,
                self._exits, self._waiting, row, taken, begins, self._state, self._begun, self._path, self._marks,
                self._marked, MOST_NODES, _MOST_OF_LEXEME, MOST_INNER,
            )  # fmt: skip
        charge(_OF_RUN + (int(self._counts[walks.N_VISITED]) - visited) / _NODES_A_CHARGE)
        return int(found)

    def _shift(self) -> None:
        """Work out the frames that `gather` did not know, and go on there."""
        state = self._state
        count, at = int(state[g.N_WAITING]), 0
        charge(count / _WAITING_A_CHARGE)
        while True:
            at = int(
                g.resumed(
                    self._waiting, at, count, len(self._starts), self._shift_keys, self._shift_values, self._pairs
                )
            )
            if at == count:
                break
            self._behind(*self._waiting[at, 1:3].tolist())
        state[g.N_WAITING], state[g.N_PAIRS] = 0, count

    def _behind(self, number: int, terminal: int) -> int:
        """Return the number of the frame behind `terminal` in a frame, and note it."""
        tick()
        key = number * len(self._starts) + terminal + 1
        slot = int(walks.slot_of(self._shift_keys, key))
        if self._shift_keys[slot]:
            return int(self._shift_values[slot])
        behind = self._number(self._configurations.frames.shift(self._frames[number], terminal))
        self._shift_keys[slot], self._shift_values[slot] = key, behind
        self._shifts += 1
        if 2 * self._shifts >= len(self._shift_keys):
            self._shift_keys, self._shift_values = _larger_table(self._shift_keys, self._shift_values)
        return behind

    def _number(self, frame: ParseFrame) -> int:
        number = self._frame_numbers.get(frame)
        if number is None:
            number = self._frame_numbers[frame] = len(self._frames)
            self._frames.append(frame)
            if number == len(self._leaving):
                self._frame_bits, self._leaving = _twice(self._frame_bits), _twice(self._leaving)
            opened = self._configurations.frames.opened(frame)
            bits = opened.bits
            for word in range(self._words):
                self._frame_bits[number, word] = bits >> word * BITS & (1 << BITS) - 1
            self._leaving[number] = self._configurations.may_leave(frame)
        return number

    # --- growth -------------------------------------------------------------------------------------------------------

    def _grow(self, nodes: int) -> None:
        """Make room for another piece and `nodes` places."""
        counts, before = self._counts, self._bytes_of_tables()
        while counts[walks.N_INDEXED] + walks.INDEX + self._nodes.shape[0] > len(self._indexed):
            self._indexed = twice(self._indexed)
        while counts[walks.N_NODES] + max(nodes, self._nodes.shape[0]) > len(self._pool):
            self._pool = twice(self._pool)
        if 2 * counts[walks.N_PLACES] >= len(self._places):
            self._places, self._place_bits = twice(self._places), twice(self._place_bits)
            self._slots = np.zeros(4 * len(self._places), np.int64)
            for number, digest in enumerate(self._places[: counts[walks.N_PLACES], 2].tolist()):
                slot = (digest ^ (digest >> 15)) & (len(self._slots) - 1)
                while self._slots[slot]:
                    slot = (slot + 1) & (len(self._slots) - 1)
                self._slots[slot] = number + 1
        if 2 * counts[walks.N_PIECES] >= len(self._pieces):
            self._pieces = twice(self._pieces)
            self._keys, self._values = _larger_table(self._keys, self._values)
        if 2 * (counts[walks.N_IDS] + walks.SPARSE) > len(self._ids):
            self._ids = twice(self._ids)
        if counts[walks.N_ROWS] == len(self._rows):
            self._rows = twice(self._rows)
        charge((self._bytes_of_tables() - before) / _BYTES_A_CHARGE)

    def _bytes_of_tables(self) -> int:
        tables = (self._indexed, self._pool, self._places, self._place_bits, self._pieces, self._ids, self._rows)
        return sum(table.nbytes for table in tables)


def _twice(table: _Array) -> _Array:
    return np.concatenate([table, np.zeros_like(table)])  # type: ignore[return-value]  # numpy forgets which


def _larger_table(keys: I64, values: I32) -> tuple[I64, I32]:
    more = np.zeros(4 * len(keys), np.int64), np.zeros(4 * len(values), np.int32)
    walks.moved(keys, values, *more)
    return more


def distinct(nodes: I32) -> I32:
    """Do the same as `np.unique`, which hashes and takes several times as long."""
    ordered = np.sort(nodes)
    return ordered[np.concatenate([_FIRST, ordered[1:] != ordered[:-1]])] if len(ordered) else ordered
