"""Subtree pruning: the walk that classifies a vocabulary skips subtrees that stay inside a lexeme as a whole.

Characters come in kinds: digits, letters in four groups, punctuation marks, all beyond ASCII. A state is *steady* under
the kinds whose every character leads to one next state; under the same kinds that state is steady again, or is the
state itself, as in `[a-z0-9_]*`. Where all characters below a node of the vocabulary are of such kinds, for as many
steps as the node is tall, everything below stays inside. Slices know a few alphabets and take all tokens spelled with
one of them; this is asked node by node, and counted repetitions (`[a-z]{1,63}`) answer too.
"""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel

_KINDS = (
    *(b"ghijklmnopqrstuvwxyz", b"abcdef", b"GHIJKLMNOPQRSTUVWXYZ", b"ABCDEF", b"0123456789"),
    *(b" ", b"_", b"-", b".", b",", b":", b";", b"/", b"@", b"#", b"&", b"'", b"*", b"+", b"=", b"()", b"[]", b"{}"),
    *(b"<>", b"!?", b"$%", b"^`|~"),
)
"""In the order in which states are asked where they lead: most of a vocabulary is small letters."""
_ASCII = len(_KINDS)
NON_ASCII = 1 << _ASCII
"""Characters beyond ASCII that are not white space, or their first bytes."""
_OTHER = NON_ASCII << 1
"""Quotes, backslashes, control characters, white space beyond ASCII, bytes that are not UTF-8."""
_SHIFT = _ASCII + 2
_KNOWN = 1 << 62
"""What is known of a state is one integer, so that OS threads see all of it or nothing: kinds, next state + 1, this
bit."""
BLANKS = "\u0080-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
"""Characters beyond ASCII that patterns such as `.` and `\\S` exclude; control characters are included to be safe."""
_MOST_PAIRS = 100


def kinds_of(letters: bytes) -> int:
    """Return the kinds of which all letters are among `letters`, as bits."""
    return sum(1 << number for number, kind in enumerate(_KINDS) if set(kind) <= set(letters))


def _by_byte() -> np.ndarray:
    found = np.full(256, _OTHER, np.int64)
    for number, kind in enumerate(_KINDS):
        found[list(kind)] = 1 << number
    return found


def _non_ascii() -> np.ndarray:
    """Return int32[S, 256]: from state 0, between characters, the UTF-8 of one character beyond ASCII that is no blank
    leads to state 0 again; -1 = refused."""
    blanks = {chr(c).encode() for c in (*range(0x80, 0xA1), *range(0x2000, 0x200B))}
    blanks |= {char.encode() for char in "\u1680\u2028\u2029\u202f\u205f\u3000\ufeff"}
    begun = {blank[:size] for blank in blanks for size in range(1, len(blank))}
    rows = [np.full(256, -1, np.int32) for _ in range(4)]  # 1 to 3: so many continuation bytes are left
    for left in (1, 2, 3):
        rows[left][0x80:0xC0] = left - 1
    numbers: dict[tuple[bytes, int, int], int] = {}

    def state(spelled: bytes, left: int, low: int = 0x80, high: int = 0xBF) -> int:
        if spelled not in begun and (low, high) == (0x80, 0xBF):
            return left
        key = (spelled if spelled in begun else b"", left, low + high * 256)
        if key not in numbers:
            numbers[key] = len(rows)
            row = np.full(256, -1, np.int32)
            rows.append(row)
            for byte in range(low, high + 1):
                text = spelled + bytes([byte])
                if text not in blanks:
                    row[byte] = 0 if left == 1 else state(text, left - 1)
        return numbers[key]

    bounds = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}
    for lead in range(0xC2, 0xF5):
        left = 1 if lead < 0xE0 else 2 if lead < 0xF0 else 3
        rows[0][lead] = state(bytes([lead]), left, *bounds.get(lead, (0x80, 0xBF)))
    return np.stack(rows)


_KIND = _by_byte()
_LETTERS = np.frombuffer(b"".join(_KINDS), np.uint8).astype(np.int32)
_STARTS = np.cumsum([0, *map(len, _KINDS)]).astype(np.int32)
_TEXT = _non_ascii()


@kernel("(uint8[::1], int32[::1], int32[::1], int32[::1], uint8[::1], int32[:, ::1])", python=True)
def describe(byte, depth, first, exact, letters, nodes):  # type: ignore[no-untyped-def]
    """Write a trie as walks read it: nodes level by level, so that siblings lie side by side; node 0 is the root.

    `letters` uint8[N + 1]: the byte of each. `nodes` int32[N + 1, 8]: its children from, to; its tokens from, to; those
    of its subtree to; kinds of all characters below; bytes of the tallest path below; its number in the trie. What
    stands inside a character has something of no kind below it. Nodes of one depth are one level, in the order of the
    trie, so that one pass through it writes all.
    """
    n = byte.size
    place = np.zeros(1026, np.int32)  # by depth: where its next node goes
    for i in range(n):
        place[depth[i]] += 1
    letters[0] = 0
    for k in range(8):
        nodes[0, k] = 0
    nodes[0, 0] = 1
    nodes[0, 1] = 1 + place[1]
    nodes[0, 7] = -1
    begin = 1
    for d in range(1, 1026):
        here = place[d]
        place[d] = begin
        begin += here
    at = np.zeros(1025, np.int32)  # by depth, of the nodes that are open:
    kinds = np.zeros(1025, np.int32)
    tall = np.zeros(1025, np.int32)
    own = np.zeros(1025, np.int32)
    state = np.zeros(1025, np.int32)
    open_depth = 0
    for i in range(n + 1):
        d = depth[i] if i < n else 1
        while open_depth >= d:
            new = at[open_depth]
            nodes[new, 1] = place[open_depth + 1]
            nodes[new, 4] = first[i]
            nodes[new, 5] = kinds[open_depth] | (_OTHER if state[open_depth] != 0 else 0)
            nodes[new, 6] = tall[open_depth]
            above = open_depth - 1
            kinds[above] |= kinds[open_depth] | own[open_depth]
            tall[above] = max(tall[above], tall[open_depth] + 1)
            open_depth = above
        if i == n:
            break
        new = place[d]
        place[d] += 1
        letters[new] = byte[i]
        nodes[new, 0] = place[d + 1]
        nodes[new, 2] = first[i]
        nodes[new, 3] = first[i] + exact[i]
        nodes[new, 7] = i
        before = state[d - 1]
        plain = before == 0 and byte[i] < 0x80
        state[d] = 0 if plain else _TEXT[before, byte[i]] if before >= 0 else -1
        own[d] = _OTHER if state[d] < 0 else _KIND[byte[i]] if plain else NON_ASCII
        at[d] = new
        kinds[d] = 0
        tall[d] = 0
        open_depth = d


@kernel(python=True)
def _non_ascii_leads(table, state, goal):  # type: ignore[no-untyped-def]
    """Return whether every character of `NON_ASCII` leads from `state` to `goal`."""
    mine = np.empty(_MOST_PAIRS, np.int32)
    text = np.empty(_MOST_PAIRS, np.int32)
    mine[0] = state
    text[0] = 0
    count = 1
    k = 0
    while k < count:
        old = -1
        last = -1
        for byte in range(0xC2, 0xF5) if k == 0 else range(0x80, 0xC0):
            after = _TEXT[text[k], byte]
            if after < 0:
                continue
            target = table[mine[k], byte]
            if target < 0 or (after == 0 and target != goal):
                return False
            if after == 0 or (target == last and after == old):
                continue
            old = after
            last = target
            j = count - 1
            while j > 0 and (mine[j] != target or text[j] != after):
                j -= 1
            if j == 0:
                if count == _MOST_PAIRS:
                    return False
                mine[count] = target
                text[count] = after
                count += 1
        k += 1
    return True


@kernel(python=True)
def _steadiness(table, state):  # type: ignore[no-untyped-def]
    """Return int64: kinds under which `state` is steady, and the state they lead to; `state` itself is preferred."""
    goals = np.empty(_ASCII, np.int32)
    goal = -1
    for kind in range(_ASCII):
        target = table[state, _LETTERS[_STARTS[kind]]]
        for k in range(_STARTS[kind] + 1, _STARTS[kind + 1]):
            if table[state, _LETTERS[k]] != target:
                target = -1
                break
        goals[kind] = target
        if target == state or goal < 0:
            goal = target
    if goal < 0:
        return _KNOWN
    kinds = 0
    for kind in range(_ASCII):
        if goals[kind] == goal:
            kinds |= 1 << kind
    if _non_ascii_leads(table, state, goal):
        kinds |= NON_ASCII
    return _KNOWN | ((np.int64(goal) + 1) << _SHIFT) | kinds


@kernel(
    "(int32[:, ::1], int64, int64, int64, int64[::1])",
    "(int32[:, ::1], int32, int32, int32, int64[::1])",
    python=True,
)
def takes_below(table, state, kinds, tall, steady):  # type: ignore[no-untyped-def]
    """Return whether all texts of at most `tall` characters of `kinds` stay inside from `state` on. False where this is
    not known.

    `steady` int64[S]: what is known of the states, 0 = nothing yet; written to.
    """
    if kinds & _OTHER:
        return False
    for _ in range(tall):
        known = steady[state]
        if known == 0:
            known = steady[state] = _steadiness(table, state)
        if int(kinds) & ~known:
            return False
        after = ((known ^ _KNOWN) >> _SHIFT) - 1
        if after == state:
            return True
        state = after
    return True


@kernel("(int32[:, ::1],)", python=True)
def loops_under(table):  # type: ignore[no-untyped-def]
    """Return int64[S]: the kinds of which every character leads from a state back to it, as bits."""
    found = np.zeros(table.shape[0], np.int64)
    for state in range(table.shape[0]):
        known = _steadiness(table, state) ^ _KNOWN
        if (known >> _SHIFT) - 1 == state:
            found[state] = known & ((1 << _SHIFT) - 1)
    return found


@kernel(
    "(uint8[::1], int32[:, ::1], int32[::1], int32[:, ::1], boolean[::1], int64, int64, int64[::1], "
    "int32[::1], int32[::1], int32[::1])",
    python=True,
)
def walk(letters, nodes, ids, transitions, accepting, start, final, steady, inside, exits, closes):  # type: ignore[no-untyped-def]
    """Classify a whole vocabulary from one lexeme state.

    Writes to `inside` the tokens whose every byte stays inside the lexeme, to `closes` those that end in state `final`
    (-1: there is none; nothing can follow it), and to `exits` the nodes of the trie at which a remainder begins: the
    lexeme could end just before the node's byte and cannot go on with it. Nodes of depth 1 are never exits: there the
    lexeme ends before the token. `letters`, `nodes`: see `describe`; `steady`: see `takes_below`. Returns how many
    exits, closing tokens and inside tokens there are, and how many nodes were looked at.
    """
    states = np.empty(1024, np.int32)
    at = np.empty(1024, np.int32)
    to = np.empty(1024, np.int32)
    states[0] = start
    at[0] = nodes[0, 0]
    to[0] = nodes[0, 1]
    n_exits = 0
    n_closes = 0
    n_inside = 0
    seen = to[0] - at[0]
    d = 0
    while d >= 0:
        i = at[d]
        if i == to[d]:
            d -= 1
            continue
        at[d] = i + 1
        state = states[d]
        after = transitions[state, letters[i]]
        if after < 0:
            if d > 0 and accepting[state]:
                exits[n_exits] = nodes[i, 7]
                n_exits += 1
            continue
        below = nodes[i, 0]
        end = nodes[i, 1]
        if after == final:
            for k in range(nodes[i, 2], nodes[i, 3]):
                closes[n_closes] = ids[k]
                n_closes += 1
            for k in range(below, end):
                exits[n_exits] = nodes[k, 7]
                n_exits += 1
            continue
        whole = below < end and takes_below(transitions, after, nodes[i, 5], nodes[i, 6], steady)
        for k in range(nodes[i, 2], nodes[i, 4] if whole else nodes[i, 3]):
            inside[n_inside] = ids[k]
            n_inside += 1
        if below < end and not whole:
            d += 1
            states[d] = after
            at[d] = below
            to[d] = end
            seen += end - below
    return n_exits, n_closes, n_inside, seen


def warm() -> None:
    """Load or compile the loops of this file."""
    i32, flags = np.zeros(1, np.int32), np.zeros(1, np.bool_)
    empty, table, steady = np.zeros(0, np.int32), np.full((1, 256), -1, np.int32), np.zeros(1, np.int64)
    letters, nodes = np.zeros(1, np.uint8), np.zeros((1, 8), np.int32)
    describe(np.zeros(0, np.uint8), empty, i32, empty, letters, nodes)
    walk(letters, nodes, empty, table, flags, 0, -1, steady, i32, i32, i32)
    takes_below(table, 0, 0, 0, steady)
    loops_under(table)
