"""What a vocabulary can do from a state of a lexeme: worked out once, shared by every grammar of that vocabulary.

Explicit automata are classified by one compiled walk over the vocabulary, and the answer is kept under the canonical
name of the state's residual language. Sets of words are not kept: reading their few continuations off the sorted
vocabulary costs about as much as looking the answer up.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np

from grammar import kernels
from grammar.lexemes import DfaLexeme, Lexeme, State
from grammar.trie import I32, Branch
from grammar.vocabulary import Vocabulary

MAX_CLASSES = 8_000
"""Classified states kept per vocabulary; a dense one takes 16 kB of a 128,000 token vocabulary."""
_SPARSE = 1_500
_NONE = np.empty(0, np.int32)


@dataclass(frozen=True, slots=True)
class Ending:
    """Tokens that end the lexeme with one `outcome`.

    `closers`: those that end with it. `numbers[k]`, `tokens[k]`: token k goes on after the lexeme, spelling remainder
    `numbers[k]` of the vocabulary.
    """

    outcome: int
    closers: I32
    numbers: I32
    tokens: I32


@dataclass(frozen=True, slots=True)
class RootClass:
    """Tokens from a lexeme state: those that stay inside (`row` as a bitmask, or `ids` where they are few) and those
    that end it."""

    row: I32 | None
    ids: I32
    endings: tuple[Ending, ...]


@dataclass(frozen=True, slots=True)
class BranchClass:
    """The same for the subtree of a small trie: `ids` stay inside; the lexeme may end at each of `ends`."""

    ids: I32
    ends: tuple[tuple[int, Branch], ...]


def join(parts: list[I32]) -> I32:
    if not parts:
        return _NONE
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


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
        known = _of_automaton(vocabulary, lexeme, state)
        remember(vocabulary, key, known)
    return known


def remember(vocabulary: Vocabulary, key: Any, value: Any) -> None:
    """Keep under `key`, forgetting the oldest beyond `MAX_CLASSES`."""
    classes = vocabulary.classes
    while len(classes) >= MAX_CLASSES:
        classes.pop(next(iter(classes)), None)
    classes[key] = value


def _of_automaton(vocabulary: Vocabulary, lexeme: DfaLexeme, state: int) -> RootClass:
    trie = vocabulary.trie
    row = np.zeros(vocabulary.row_words, np.int32)
    exits = np.empty(trie.size + 1, np.int32)
    closes = np.empty(trie.size + 1, np.int32)
    n_exits, n_closes, n_inside = kernels.walk(
        trie.byte, trie.depth, trie.skip, trie.first, trie.exact, trie.ids,
        lexeme.table, lexeme.accepting, state, lexeme.final, row, exits, closes,
    )  # fmt: skip
    pairs = [vocabulary.pairs_at(node) for node in exits[:n_exits].tolist()]
    ending = Ending(
        0,
        closes[:n_closes].copy(),
        join([numbers for numbers, _ in pairs]),
        join([tokens for _, tokens in pairs]),
    )
    endings = (ending,) if n_closes or ending.numbers.size else ()
    if n_inside > _SPARSE:
        return RootClass(row, _NONE, endings)
    ids = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
    return RootClass(None, ids.astype(np.int32), endings)


def _of_words(vocabulary: Vocabulary, lexeme: Any, start: State) -> RootClass:
    """Follow the usual spellings through the sorted vocabulary, and the unusual ones through the tokens that have a
    backslash."""
    inside: list[I32] = []
    ended: dict[int, tuple[list[I32], list[I32], list[I32]]] = {}
    words, id_of = vocabulary.sorted_words, vocabulary.id_of
    pending: list[tuple[State, bytes]] = [(start, b"")]
    while pending:
        state, path = pending.pop()
        for spelled, after in lexeme.continuations(state):
            text = path + spelled
            at = bisect.bisect_left(words, text)
            if len(spelled) > 1:
                for size in range(1, len(spelled)):
                    if path + spelled[:size] in id_of:
                        inside.append(id_of[path + spelled[:size]])
            if at == len(words) or not words[at].startswith(text):
                continue
            ids = id_of.get(text)
            outcome = lexeme.outcome(after)
            grows = lexeme.grows(after)
            if ids is not None and grows:
                inside.append(ids)
            if outcome is not None:
                closers, numbers, tokens = ended.setdefault(outcome, ([], [], []))
                if ids is not None and not grows:
                    closers.append(ids)
                more_numbers, more_tokens = _pairs_after(vocabulary, text)
                numbers.append(more_numbers)
                tokens.append(more_tokens)
            if grows:
                pending.append((after, text))
    if hasattr(lexeme, "root"):
        _escaped(vocabulary, lexeme, start, inside, ended)
    endings = tuple(Ending(o, join(c), join(n), join(t)) for o, (c, n, t) in ended.items())
    return RootClass(None, join(inside), endings)


def _pairs_after(vocabulary: Vocabulary, text: bytes) -> tuple[I32, I32]:
    """Remainders of the tokens that begin with `text`."""
    key = ("after", text)
    found = vocabulary.classes.get(key)
    if found is None:
        numbers, tokens = [], []
        for word in vocabulary.with_prefix(text):
            number = vocabulary.remainder_number(word[len(text) :])
            if number is not None:
                for token in vocabulary.id_of[word].tolist():
                    numbers.append(number)
                    tokens.append(token)
        found = (np.array(numbers, np.int32), np.array(tokens, np.int32))
        remember(vocabulary, key, found)
    return found


def _escaped(vocabulary: Vocabulary, lexeme: Any, start: State, inside: list[I32], ended: dict[int, Any]) -> None:
    """Add tokens that spell part of a literal with a backslash escape."""
    pending: list[tuple[State, Branch]] = [(start, vocabulary.escapes)]
    while pending:
        state, branch = pending.pop()
        for byte, below in branch.children.items():
            after = lexeme.next(state, byte)
            if after is None:
                continue
            if lexeme.grows(after):
                if below.ids is not None:
                    inside.append(below.ids)
                pending.append((after, below))
                continue
            closers, numbers, tokens = ended.setdefault(lexeme.outcome(after), ([], [], []))
            if below.ids is not None:
                closers.append(below.ids)
            more_numbers, more_tokens = _pairs_after(vocabulary, below.path)
            numbers.append(more_numbers)
            tokens.append(more_tokens)


def in_branch(vocabulary: Vocabulary, lexeme: Lexeme, state: State, branch: Branch) -> BranchClass:
    """Classify the subtree of `branch`, which was reached in `state`; `branch` itself is not counted."""
    key = lexeme.key(state)
    if key is None:
        return _in_branch(lexeme, state, branch)
    name = (id(branch), key)
    known = vocabulary.classes.get(name)
    if known is None:
        known = _in_branch(lexeme, state, branch)
        remember(vocabulary, name, known)
    return known


def _in_branch(lexeme: Lexeme, state: State, branch: Branch) -> BranchClass:
    inside: list[I32] = []
    ends: list[tuple[int, Branch]] = []
    pending = [(state, branch)]
    while pending:
        at, node = pending.pop()
        for byte, below in node.children.items():
            after = lexeme.next(at, byte)
            if after is None:
                continue
            outcome = lexeme.outcome(after)
            if outcome is not None:
                ends.append((outcome, below))
            if lexeme.grows(after):
                if below.ids is not None:
                    inside.append(below.ids)
                pending.append((after, below))
    return BranchClass(join(inside), tuple(ends))
