"""What a vocabulary can do from a state of a lexeme: worked out once, shared by every grammar of that vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.classification.automata import RootClass, of_automaton
from sluicegate.grammar.classification.counted import of_counted
from sluicegate.grammar.classification.joint import of_joint
from sluicegate.grammar.classification.openings import characters_begun
from sluicegate.grammar.classification.without_given import of_without_given
from sluicegate.grammar.classification.words import of_words
from sluicegate.grammar.lexemes.base import DfaLexeme, Lexeme, State
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.joint import Joint
from sluicegate.grammar.lexemes.scalars import every_string, shared_automata
from sluicegate.grammar.lexemes.without_given import WithoutGiven
from sluicegate.grammar.lexemes.words import WordList
from sluicegate.grammar.token_ids import I32, join
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.frozen import frozen_when_checked

MAX_SUBTREES = 4_000
"""Most classified subtrees of small tries kept per lexeme."""
_LETTERS_A_CHARGE = 4
"""Letters below nodes of a small trie that are looked at, per unit charged."""


def at_root(vocabulary: Vocabulary, lexeme: Lexeme, state: State) -> RootClass:
    """Classify the whole vocabulary from `state`."""
    if isinstance(lexeme, DfaLexeme):
        return of_automaton(vocabulary, lexeme, state)
    if isinstance(lexeme, Counted):
        return of_counted(vocabulary, lexeme, state)
    if isinstance(lexeme, Joint):
        return of_joint(vocabulary, lexeme, state)
    if isinstance(lexeme, WithoutGiven):
        return of_without_given(vocabulary, lexeme, state, at_root(vocabulary, lexeme.inner, state.inner))
    assert isinstance(lexeme, WordList)
    return of_words(vocabulary, lexeme, state)


def prepare(vocabulary: Vocabulary) -> None:
    """Work out, once, what nearly every schema asks of `vocabulary`: its tables, and what can follow in a plain string
    or number. Takes about a second for 128,000 tokens, a third of that from disk."""
    vocabulary.warm()
    lexemes = shared_automata()
    if vocabulary.is_prepared:
        return
    vocabulary.is_prepared = True
    characters_begun(every_string(), vocabulary.punctuation)
    for lexeme in lexemes:
        for state in range(len(lexeme.table)):
            if lexeme.grows(state):
                of_automaton(vocabulary, lexeme, state)


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class SubtreeClass:
    """Tokens of a subtree of a small trie from a lexeme state: `ids` stay inside; the lexeme may end at each of `ends`,
    below which tokens go on, and with each token of `closers`, by outcome."""

    ids: I32
    ends: tuple[tuple[int, TrieNode], ...]
    closers: tuple[tuple[int, I32], ...]


def in_subtree(lexeme: Lexeme, state: State, node: TrieNode) -> SubtreeClass:
    """Classify the tokens below `node`, which was reached in `state`; those at `node` itself are left out."""
    memo = lexeme.branches
    if memo is None:
        return _in_subtree(lexeme, state, node)
    name = (node, state)
    known: SubtreeClass | None = memo.get(name)
    if known is None:
        if len(memo) >= MAX_SUBTREES:
            memo.clear()
        known = memo[name] = _in_subtree(lexeme, state, node)
    return known


def _in_subtree(lexeme: Lexeme, state: State, root: TrieNode) -> SubtreeClass:
    inside: list[I32] = []
    ends: list[tuple[int, TrieNode]] = []
    closers: dict[int, list[I32]] = {}
    pending = [(state, root)]
    looked = 0
    by_bytes = lexeme.branches is None
    while pending:
        at, node = pending.pop()
        tick()
        looked += len(node.children)
        for byte in lexeme.next_bytes(at) if by_bytes and len(node.children) > 2 else node.children:
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
    charge(looked / _LETTERS_A_CHARGE)
    return SubtreeClass(join(inside), tuple(ends), tuple((outcome, join(ids)) for outcome, ids in closers.items()))
