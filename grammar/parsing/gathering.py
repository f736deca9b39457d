"""The compiled loop that puts a part of a mask together from pieces, see `walks`; `pieces` holds the tables it fills.

A piece does not depend on rules, so pieces are made once for each lexeme state and set of places, and a part follows
pairs of a set of places and a frame from piece to piece.
"""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.parsing.following import BITS
from sluicegate.grammar.parsing.walks import N_PIECES, N_VISITED, SPARSE, piece_of, settle, slot_of
from sluicegate.plugins.compiled.kernels import kernel

DONE, TOO_MANY, NO_ROOM, UNKNOWN_SHIFT, PAUSED = range(5)
"""Results of `gather`."""
(
    N_PAIRS,  # rows that wait on the stack
    N_SEEN,
    N_EXITS,
    N_WAITING,
    N_TOKENS,  # of the part so far; more than fit `taken` are in `row` alone
    INNER,  # places inside tokens that were looked at
    ASKED,  # the terminal of which something must be worked out, and the frame in front of it
    ASKED_FRAME,
    PART,  # number of the part
    BEGIN,  # how many of the lexeme states to begin with are left
    BEGIN_FRAME,  # the frame behind them
    UNTIL,  # nodes looked at, past which it pauses
    LAST_PIECE,  # number of the last piece that may be made
    N_MARKED,  # frames that have a row of `marks`
    N_STATE,
) = range(15)
"""Of `state`."""


_WORDS_A_NODE, _TOKENS_A_NODE = 40, 8
"""What is done in the time of visiting a node: words of bitmasks that are joined, tokens that are added singly."""
_NODES_A_TERMINAL = 4
"""Nodes that are visited in the time of finding a piece that is known, and following it."""
_FEW_PLACES, _PLACES_A_NODE = 64, 5
"""Smaller sets of places are not compared with those that were looked at; and how many are compared and marked in the
time of a node."""
MARKED = 16
"""Most frames of a part whose places are compared."""


@kernel(python=True)
def push(at, frame, depth, read, pairs, top):  # type: ignore[no-untyped-def]
    pairs[top, 0] = at
    pairs[top, 1] = frame
    pairs[top, 2] = depth
    pairs[top, 3] = read
    return top + 1


@kernel(python=True)
def take(number, pieces, id_pool, rows, row, taken, state, counts):  # type: ignore[no-untyped-def]
    """Add the tokens of a piece to `row`, and to `taken` as long as they are few. That counts as visiting nodes."""
    if pieces[number, 4] == state[PART]:
        return
    pieces[number, 4] = state[PART]
    if pieces[number, 2] >= 0:
        row |= rows[pieces[number, 2]]
        state[N_TOKENS] += SPARSE + 1
        counts[N_VISITED] += row.size // _WORDS_A_NODE
        return
    counts[N_VISITED] += (pieces[number, 1] - pieces[number, 0]) // _TOKENS_A_NODE
    for k in range(pieces[number, 0], pieces[number, 1]):
        token = id_pool[k]
        row[token >> 5] |= np.int32(1) << np.int32(token & 31)
        if state[N_TOKENS] < taken.size:
            taken[state[N_TOKENS]] = token
        state[N_TOKENS] += 1


@kernel(python=True)
def row_of_marks(frame, marks, marked, state):  # type: ignore[no-untyped-def]
    """Return the row of `marks` of a frame, a new one if need be; -1: there is none left."""
    for row in range(state[N_MARKED]):
        if marked[row] == frame:
            return row
    row = state[N_MARKED]
    if row == marked.size:
        return np.int64(-1)
    marked[row] = frame
    marks[row] = 0
    state[N_MARKED] += 1
    return row


@kernel(python=True)
def unmarked(at, mine, marks, pool, places, left):  # type: ignore[no-untyped-def]
    """Write to `left` the places of the set `at` that row `mine` of `marks` lacks, and return how many there are."""
    fresh = 0
    for k in range(places[at, 0], places[at, 1]):
        node = pool[k]
        if not marks[mine, node >> 5] >> (node & 31) & 1:
            left[fresh] = node
            fresh += 1
    return fresh


@kernel(python=True)
def mark_all(at, mine, marks, pool, places):  # type: ignore[no-untyped-def]
    """Add the places of the set `at` to row `mine` of `marks`."""
    for k in range(places[at, 0], places[at, 1]):
        marks[mine, pool[k] >> 5] |= np.int32(1) << np.int32(pool[k] & 31)


@kernel(python=True)
def frame_behind(frame, terminal, n_terminals, shift_keys, shift_values):  # type: ignore[no-untyped-def]
    """Return the frame behind `frame` and a terminal, or minus their key where it is not known."""
    key = np.int64(frame) * n_terminals + terminal + 1
    slot = slot_of(shift_keys, key)
    return np.int64(shift_values[slot]) if shift_keys[slot] == key else -key


@kernel(python=True)
def replace_pair(top, found, n_terminals, pairs, waiting, state):  # type: ignore[no-untyped-def]
    """Replace the pair `top` by those above it, up to `found`; those whose frame is not known go to `waiting`. Return
    where the stack ends."""
    kept = top
    for k in range(top + 1, found):
        follow = pairs[k, 1]
        if follow >= 0:
            kept = push(pairs[k, 0], follow, pairs[k, 2], pairs[k, 3], pairs, kept)
            continue
        w = state[N_WAITING]
        waiting[w, 0] = pairs[k, 0]
        waiting[w, 1] = (-follow - 1) // n_terminals
        waiting[w, 2] = pairs[k, 3]
        waiting[w, 3] = pairs[k, 2]
        state[N_WAITING] += 1
    return kept


@kernel("(int32[:, ::1], int64, int64, int64, int64[::1], int32[::1], int64[:, ::1])", python=True)
def resumed(waiting, begin, end, n_terminals, shift_keys, shift_values, pairs):  # type: ignore[no-untyped-def]
    """Put the rows `begin` to `end` of `waiting` onto the stack `pairs`, up to the first whose frame is not known, and
    return its number, `end` where there is none. For the tables see `gather`."""
    for k in range(begin, end):
        key = np.int64(waiting[k, 1]) * n_terminals + waiting[k, 2] + 1
        slot = slot_of(shift_keys, key)
        if shift_keys[slot] != key:
            return k
        pairs[k, 0] = waiting[k, 0]
        pairs[k, 1] = shift_values[slot]
        pairs[k, 2] = waiting[k, 3]
        pairs[k, 3] = waiting[k, 2]
    return end


@kernel(
    "(uint8[::1], int32[:, ::1], int32[::1], int32[:, ::1], uint8[::1], int64[::1], boolean[::1], int32[::1], "
    "int32[::1], boolean[:, ::1], int64[:, ::1], int64[::1], boolean[::1], int64[:, ::1], boolean[::1], "
    "int64[::1], int32[::1], int32[::1], int64[:, ::1], int64[:, ::1], int64[::1], int64[::1], int32[::1], "
    "int32[:, ::1], int32[::1], "
    "int32[:, ::1], int64[::1], int32[::1], int32[::1], int32[::1], int64[:, ::1], int64[::1], int32[:, ::1], "
    "int32[:, ::1], int32[::1], int32[::1], int32[::1], int64[::1], int32[::1], int32[:, ::1], "
    "int32[:, ::1], int32[::1], int64, int64, int64)",
    python=True,
)
def gather(  # type: ignore[no-untyped-def]
    letters, nodes, ids, table, classes, loops, accepting, starts, owners, wanted, class_bits, ignored,
    closed, frame_bits, leaving, shift_keys, shift_values, pool, places, bits, slots, keys, values, pieces, id_pool,
    rows, counts, indexed, left, few, pairs, seen, exits, waiting, row, taken, begins, state, begun, path, marks,
    marked, most_first, most_nodes, most_inner,
):  # fmt: skip
    """Follow the rows (places, frame, depth, terminal read last) on the stack `pairs` through all pieces.

    Return `DONE`, or what is lacking. A terminal of which two in a row are one as well (`closed`) is not read twice in
    a row where both lead to the same frame: the longer one leads there, too.

    It is called again with the same arguments once there is room, or what was not known is.

    By terminal: `starts`, the first state of its lexeme, -1 = it is none; `wanted` bool[T, 256]: bytes that may
    come behind it. `owners`: the terminal of a state. `class_bits` int64[C, W]: terminals
    that begin with a byte class; `ignored` int64[W]; `frame_bits` int64[F, W]: terminals that may come in a frame;
    `leaving` bool[F]: something outside may. `shift_keys`, `shift_values`: the frame behind frame * T + terminal.
    Writes to `exits` rows (places, frame) whose frame is leaving; to `waiting` rows (places, frame, terminal, depth)
    where the frame behind is not known; the tokens to `row` and `taken`. `begins`: lexeme states to begin with, in
    front of the pairs. The others: see `walks.piece_of`.
    """
    n_terminals = starts.size
    words = ignored.size
    while state[BEGIN] > 0:
        begin = begins[state[BEGIN] - 1]
        number = piece_of(
            0, begin, most_first, letters, nodes, ids, table, classes, loops, accepting, wanted[owners[begin]],
            class_bits, pool, places, bits, slots, keys, values, pieces, id_pool, rows,
            counts, indexed, left, few, begun, path,
        )  # fmt: skip
        if number < 0:
            return NO_ROOM
        if pieces[number, 2] == -2 or state[N_PAIRS] == pairs.shape[0]:
            return TOO_MANY
        if counts[N_VISITED] > state[UNTIL]:
            return PAUSED
        take(number, pieces, id_pool, rows, row, taken, state, counts)
        state[N_PAIRS] = push(pieces[number, 3], state[BEGIN_FRAME], 1, owners[begin], pairs, state[N_PAIRS])
        state[BEGIN] -= 1
    while state[N_PAIRS] > 0:
        top = state[N_PAIRS] - 1
        at = pairs[top, 0]
        frame = pairs[top, 1]
        depth = pairs[top, 2]
        read = pairs[top, 3]
        size = places[at, 1] - places[at, 0]
        mark = (((np.int64(at) << 20) + frame) << 20) + read + 2
        slot_seen = slot_of(seen, mark)
        if size == 0 or seen[slot_seen] == mark:
            state[N_PAIRS] = top
            continue
        if depth > 1 and state[INNER] + size > most_inner:
            return TOO_MANY
        mine = np.int64(-1)
        if depth > 1 and size >= _FEW_PLACES:
            mine = row_of_marks(frame, marks, marked, state)
        if mine >= 0:
            fresh = unmarked(at, mine, marks, pool, places, left)
            counts[N_VISITED] += size // _PLACES_A_NODE
            if 2 * fresh <= size:  # the others were looked at in front of this frame
                fewer = settle(
                    left, fresh, letters, nodes, classes, class_bits, pool, places, bits, slots, counts, begun
                )
                if fewer < 0:
                    return NO_ROOM
                pairs[top, 0] = fewer
                continue
        found = top + 1  # what is found is put above this pair, and moved onto its place in the end
        for word in range(words):
            own = frame_bits[frame, word]
            usable = (own | ignored[word]) & bits[at, word]
            bit = 0
            while usable:
                if not usable & 1:
                    usable >>= 1
                    bit += 1
                    continue
                terminal = word * BITS + bit
                usable >>= 1
                bit += 1
                if starts[terminal] < 0:
                    continue
                counts[N_VISITED] += _NODES_A_TERMINAL  # also where all is known
                ignorable = ignored[word] >> (bit - 1) & 1
                follow = np.int64(-1)
                if own >> (bit - 1) & 1:
                    follow = frame_behind(frame, terminal, n_terminals, shift_keys, shift_values)
                    if terminal == read and closed[terminal]:
                        if follow < 0:
                            state[ASKED] = terminal
                            state[ASKED_FRAME] = frame
                            return UNKNOWN_SHIFT
                        if follow == frame:
                            continue
                elif terminal == read and closed[terminal]:
                    continue
                number = piece_of(
                    at, starts[terminal], most_nodes, letters, nodes, ids, table, classes, loops, accepting,
                    wanted[terminal], class_bits, pool, places, bits, slots, keys, values,
                    pieces, id_pool, rows, counts, indexed, left, few, begun, path,
                )  # fmt: skip
                if number < 0:
                    return NO_ROOM
                if pieces[number, 2] == -2:
                    return TOO_MANY
                if counts[N_PIECES] > state[LAST_PIECE]:
                    return TOO_MANY
                if counts[N_VISITED] > state[UNTIL]:
                    return PAUSED
                take(number, pieces, id_pool, rows, row, taken, state, counts)
                behind = pieces[number, 3]
                if places[behind, 1] == places[behind, 0]:
                    continue
                if found + 2 > pairs.shape[0] or state[N_WAITING] + found - top > waiting.shape[0]:
                    return TOO_MANY
                if own >> (bit - 1) & 1:
                    found = push(behind, follow, depth + 1, terminal, pairs, found)
                if ignorable:
                    found = push(behind, frame, depth + 1, terminal, pairs, found)
        if 2 * state[N_SEEN] >= seen.size or state[N_EXITS] >= exits.shape[0]:
            return TOO_MANY
        seen[slot_seen] = mark
        state[N_SEEN] += 1
        if mine >= 0:
            mark_all(at, mine, marks, pool, places)
        if depth > 1:
            state[INNER] += size
        if leaving[frame]:
            exits[state[N_EXITS], 0] = at
            exits[state[N_EXITS], 1] = frame
            state[N_EXITS] += 1
        state[N_PAIRS] = replace_pair(top, found, n_terminals, pairs, waiting, state)
    return DONE
