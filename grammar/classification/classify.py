"""What a vocabulary can do from a state of a lexeme: worked out once, shared by every grammar of that vocabulary.

Explicit automata are classified by one compiled walk over the vocabulary, and the answer is kept under the canonical
name of the state's residual language. Sets of words are not kept: reading their few continuations off the sorted
vocabulary costs about as much as looking the answer up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import look, tick
from sluicegate.grammar.lexemes.base import BACKSLASH, DfaLexeme, State, Words
from sluicegate.grammar.lexemes.literals import Literals
from sluicegate.grammar.reading.mask_builder import join
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.boundary import Ending
from sluicegate.grammar.vocabulary.pruning import walk
from sluicegate.grammar.vocabulary.slices import VocabularySlice, taken
from sluicegate.grammar.vocabulary.trie import I32, TrieNode, build_trie
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

MAX_BRANCHES = 4_000
"""Classified subtrees of small tries kept per lexeme."""
_SPARSE = 1_500
_APART = 64
"""Longer lists are followed down the vocabulary in one pass, and nothing is kept of it; see `rests` for others."""
_NONE = np.empty(0, np.int32)


class RootClass(NamedTuple):
    """Tokens from a lexeme state: those that stay inside (`row` as a bitmask, or `ids` where they are few) and those
    that end it."""

    row: I32 | None
    ids: I32
    endings: tuple[Ending, ...]


@dataclass(frozen=True, slots=True)
class SubtreeClass:
    """The same for the subtree of a small trie: `ids` stay inside; the lexeme may end at each of `ends`, below which
    tokens go on, and with each token of `closers`, by outcome."""

    ids: I32
    ends: tuple[tuple[int, TrieNode], ...]
    closers: tuple[tuple[int, I32], ...]


def at_root(vocabulary: Vocabulary, lexeme: Any, state: State) -> RootClass:
    """Classify the whole vocabulary from `state`."""
    if not isinstance(lexeme, DfaLexeme):
        found: RootClass = (
            lexeme.classify(vocabulary, state) if hasattr(lexeme, "classify") else _of_words(vocabulary, lexeme, state)
        )
        return found
    key = lexeme.key(state)
    known = vocabulary.classes.get(key)
    if known is None:
        return keep(vocabulary, key, _of_automaton(vocabulary, lexeme, state))
    return known  # type: ignore[no-any-return]


def at_root_general(vocabulary: Vocabulary, lexeme: Any, state: int, wanted: bytes) -> tuple[RootClass, TrieNode]:
    """The same for a lexeme that anything may follow: the remainders of tokens that begin with a `wanted` byte, as a
    small trie of their own. Such a lexeme may end wherever it accepts, also where it can go on."""
    key = ("general", lexeme.key(state), wanted)
    known = vocabulary.classes.get(key)
    if known is None:
        inside, exits = _walk_general(vocabulary, lexeme, state, wanted)
        trie = vocabulary.trie
        remainders: list[tuple[bytes, int]] = []
        for node in exits:
            tick()
            cut = int(trie.depth[node]) - 1
            tokens = trie.ids[trie.first[node] : trie.first[trie.skip[node]]].tolist()
            remainders.extend((vocabulary.words[token][cut:], token) for token in tokens)
        known = (inside, build_trie(remainders))
        size = 0 if inside.row is None else inside.row.nbytes
        vocabulary.classes.put(key, known, size + inside.ids.nbytes + 500 * len(remainders))
    return known  # type: ignore[no-any-return]


def _walk_general(vocabulary: Vocabulary, lexeme: Any, state: int, wanted: bytes) -> tuple[RootClass, list[int]]:
    look()
    trie, flags = vocabulary.trie, np.zeros(256, np.bool_)
    flags[np.frombuffer(wanted, np.uint8)] = True
    with vocabulary.scratch as (inside, exits, _):
        n_exits, n_inside = kernels.walk_general(
            trie.byte, trie.depth, trie.skip, trie.first, trie.exact, trie.ids,
            lexeme.table, lexeme.accepting, state, flags, inside, exits,
        )  # fmt: skip
        ids, found = inside[:n_inside].copy(), exits[:n_exits].tolist()
    if n_inside <= _SPARSE:
        return RootClass(None, ids, ()), found
    row = np.zeros(vocabulary.row_words, np.int32)
    kernels.set_bits(row, ids)
    return RootClass(row, _NONE, ()), found


def keep(vocabulary: Vocabulary, key: Any, found: RootClass) -> RootClass:
    """`found`, remembered under `key`."""
    vocabulary.classes.put(key, found, size_of(found))
    return found


def size_of(found: RootClass) -> int:
    """Bytes of its arrays."""
    size = found.ids.nbytes + (0 if found.row is None else found.row.nbytes)
    return size + sum(end.closers.nbytes + end.numbers.nbytes + end.tokens.nbytes for end in found.endings)


def _of_automaton(vocabulary: Vocabulary, lexeme: DfaLexeme, state: int) -> RootClass:
    look()
    part = taken(lexeme, state, vocabulary.slices)
    trie = vocabulary.trie if part is None else part.rest
    with vocabulary.scratch as (inside, exits, closes):
        n_exits, n_closes, n_inside = walk(
            *trie.nodes, trie.ids, lexeme.table, lexeme.accepting, state, lexeme.final, lexeme.told,
                inside, exits, closes,
        )  # fmt: skip
        sparse = part is None and n_inside <= _SPARSE
        row = None if sparse else np.zeros(vocabulary.row_words, np.int32) if part is None else part.row.copy()
        if row is not None:  # from the scratch itself: a copy of a hundred thousand tokens costs as much as the walk
            kernels.set_bits(row, inside[:n_inside])
        ids = inside[:n_inside].copy() if sparse else _NONE
        found = exits[:n_exits].tobytes()
        closers = closes[:n_closes].copy()
    return RootClass(row, ids, (_ending(vocabulary, part, found, closers),) if found or n_closes else ())


def _ending(vocabulary: Vocabulary, part: VocabularySlice | None, exits: bytes, closers: I32) -> Ending:
    """Of the tokens that close, and those that go on from the nodes `exits` (int32) of the trie that was walked: few
    sets of nodes for all automata there are."""
    if not exits:
        return Ending(0, closers, _NONE, _NONE)
    key = (0 if part is None else id(part), exits)
    known: tuple[I32, I32] | None = vocabulary.left_at.get(key)
    if known is None:
        nodes = np.frombuffer(exits, np.int32).tolist()
        if part is not None:
            nodes = [part.node_of(node, vocabulary.words, vocabulary.trie) for node in nodes]
        pairs = [vocabulary.pairs_at(node) for node in nodes]
        known = join([numbers for numbers, _ in pairs]), join([tokens for _, tokens in pairs])
        vocabulary.left_at.put(key, known, len(exits) + 2 * known[0].nbytes)
    return Ending(0, closers, *known)


def _of_words(vocabulary: Vocabulary, lexeme: Any, start: State) -> RootClass:
    """Follow the usual spellings down the vocabulary, and the unusual ones through the tokens with a backslash."""
    inside: list[I32] = []
    ended: dict[int, _Ended] = {}
    window = lexeme.window(start)
    if window is None:
        _by_steps(vocabulary, lexeme, start, inside, ended)
    else:
        _by_spelling(vocabulary, lexeme, window, inside, ended)
        if lexeme.is_string:
            _escaped(vocabulary, lexeme, start, inside, ended)
    return _joined(inside, ended)


def _joined(inside: list[I32], ended: dict[int, _Ended]) -> RootClass:
    endings = tuple([Ending(o, join(e.closers), join(e.numbers), join(e.tokens)) for o, e in ended.items()])
    return RootClass(None, join(inside), endings)


class Rest(NamedTuple):
    """What is left of one word: tokens that stay inside, and those that end it, if there are any."""

    ids: I32
    ending: Ending | None


def rests(vocabulary: Vocabulary, lexeme: Any, state: State) -> list[tuple[int, Rest]] | None:
    """(outcome, what is left of it) for each possible word; None where they are many or none is usual, or the lexeme is
    no list of words.

    Kept by spelling: the same names are in many schemas.
    """
    if not lexeme.is_list:
        return None
    window = lexeme.window(state)
    if window is None or window[1] - window[0] > _APART:
        return None
    low, high, at = window
    known, is_string, found = vocabulary.rests, lexeme.is_string, []
    for word, outcome in zip(lexeme.words[low:high], lexeme.outcomes[low:high], strict=True):
        key = (is_string, word[at:])
        rest: Rest | None = known.get(key)
        if rest is None:
            rest = _of_rest(vocabulary, *key)
            known.put(key, rest, rest.ids.nbytes + len(key[1]))
        found.append((outcome, rest))
    return found


def _of_rest(vocabulary: Vocabulary, is_string: bool, rest: bytes) -> Rest:
    """One word alone; its outcome is 0."""
    if is_string and BACKSLASH not in rest:
        escaped = vocabulary.escapes.beginnings(rest)
        if escaped is not None:
            return Rest(
                join([np.array(vocabulary.beginnings(rest), np.int32), *escaped]), vocabulary.closings.get(rest)
            )
    inside: list[I32] = []
    ended: dict[int, _Ended] = {}
    lexeme = Literals([(rest, 0)]) if is_string else Words([(rest, 0)])
    _by_spelling(vocabulary, lexeme, (0, 1, 0), inside, ended)
    if is_string:
        _escaped(vocabulary, lexeme, lexeme.start, inside, ended)
    found = _joined(inside, ended)
    return Rest(found.ids, found.endings[0] if found.endings else None)


class _Ended:
    """Parts of an `Ending`."""

    __slots__ = ("closers", "numbers", "tokens")

    def __init__(self) -> None:
        self.closers: list[I32] = []
        self.numbers: list[I32] = []
        self.tokens: list[I32] = []


def _by_spelling(
    vocabulary: Vocabulary, lexeme: Any, window: tuple[int, int, int], inside: list[I32], ended: dict[int, _Ended]
) -> None:
    low, high, at = window
    trie, words = vocabulary.trie, lexeme.spelled
    room = int(words.ends[high - 1] - words.starts[low] - at * (high - low)) if high > low else 0
    nodes, whole = np.empty(room + 1, np.int32), np.empty((high - low + 1, 2), np.int32)
    n_nodes, n_whole = kernels.follow_words(
        trie.byte, trie.skip, trie.roots, words.data, words.starts, words.ends, low, high, at, nodes, whole
    )
    out = np.empty(n_nodes * trie.most, np.int32)
    n_ids = kernels.ids_at(trie.first, trie.exact, trie.ids, nodes, n_nodes, out)
    inside.append(out[:n_ids])
    for word, node in whole[:n_whole].tolist():
        end = ended.setdefault(lexeme.outcome_of(word), _Ended())
        end.closers.append(trie.at(node))
        if trie.skip[node] > node + 1:
            numbers, tokens = vocabulary.pairs_after(node)
            end.numbers.append(numbers)
            end.tokens.append(tokens)


def _by_steps(vocabulary: Vocabulary, lexeme: Any, start: State, inside: list[I32], ended: dict[int, _Ended]) -> None:
    """Inside a character: plain steps down the vocabulary, for the few bytes that are possible."""
    trie = vocabulary.trie
    pending: list[tuple[State, int]] = [(start, -1)]
    while pending:
        state, parent = pending.pop()
        tick()
        for byte in lexeme.firsts(state):
            node = trie.child(parent, byte)
            after = lexeme.next(state, byte) if node >= 0 else None
            if after is None:
                continue
            outcome = lexeme.outcome(after)
            if outcome is None:
                inside.append(trie.at(node))
                pending.append((after, node))
                continue
            end = ended.setdefault(outcome, _Ended())
            end.closers.append(trie.at(node))
            numbers, tokens = vocabulary.pairs_after(node)
            end.numbers.append(numbers)
            end.tokens.append(tokens)


def _escaped(vocabulary: Vocabulary, lexeme: Any, start: State, inside: list[I32], ended: dict[int, _Ended]) -> None:
    """Add tokens that spell part of a literal with a backslash escape.

    Most such tokens are part of one escape, which depends on the next character alone.
    """
    escapes = vocabulary.escapes
    first = escapes.tokens.children.get(BACKSLASH)
    simple = first is not None
    for char in lexeme.characters(start):
        ids, alone = escapes.of(char)
        inside.append(ids)
        simple = simple and alone
    if simple and escapes.tokens.children.keys().isdisjoint(lexeme.usual(start)):
        return
    pending: list[tuple[State, TrieNode]] = [(start, escapes.tokens)]
    while pending:
        state, branch = pending.pop()
        tick()
        for byte in lexeme.firsts(state):
            below = branch.children.get(byte)
            if below is None or (simple and below is first):
                continue
            after = lexeme.next(state, byte)
            if after is None:
                continue
            if lexeme.grows(after):
                if below.ids is not None:
                    inside.append(below.ids)
                pending.append((after, below))
                continue
            end = ended.setdefault(lexeme.outcome(after), _Ended())
            if below.ids is not None:
                end.closers.append(below.ids)
            numbers, tokens = vocabulary.pairs_after(vocabulary.trie.find(below.path))
            end.numbers.append(numbers)
            end.tokens.append(tokens)


def in_subtree(lexeme: Any, state: State, branch: TrieNode) -> SubtreeClass:
    """Classify the subtree of `branch`, which was reached in `state`; `branch` itself is not counted."""
    memo = lexeme.branches
    if memo is None:
        return _in_subtree(lexeme, state, branch)
    name = (branch, state)
    known = memo.get(name)
    if known is None:
        if len(memo) >= MAX_BRANCHES:
            memo.clear()
        known = memo[name] = _in_subtree(lexeme, state, branch)
    return known  # type: ignore[no-any-return]


def _in_subtree(lexeme: Any, state: State, branch: TrieNode) -> SubtreeClass:
    inside: list[I32] = []
    ends: list[tuple[int, TrieNode]] = []
    closers: dict[int, list[I32]] = {}
    pending = [(state, branch)]
    by_bytes = lexeme.branches is None
    while pending:
        at, node = pending.pop()
        tick()
        for byte in lexeme.firsts(at) if by_bytes and len(node.children) > 2 else node.children:
            below = node.children.get(byte)
            after = lexeme.next(at, byte) if below is not None else None
            if below is None or after is None:
                continue
            outcome = lexeme.outcome(after)
            if outcome is not None:
                if below.children and not (lexeme.is_blank and below.only_blanks):
                    ends.append((outcome, below))
                if below.ids is not None:
                    closers.setdefault(outcome, []).append(below.ids)
            if lexeme.grows(after):
                if below.ids is not None:
                    inside.append(below.ids)
                if below.children:
                    pending.append((after, below))
    return SubtreeClass(join(inside), tuple(ends), tuple((outcome, join(ids)) for outcome, ids in closers.items()))
