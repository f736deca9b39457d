"""What a lexeme that has not begun reads of the trie of punctuation, as bit sets of its nodes, see `punctuation`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import or_

import numpy as np

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.lexemes.base import BACKSLASH, QUOTE, DfaLexeme, Lexeme
from sluicegate.grammar.lexemes.counted import Counted
from sluicegate.grammar.lexemes.literals import Literals
from sluicegate.grammar.lexemes.without_given import WithoutGiven
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.punctuation import HERE, PunctuationNode, PunctuationTrie, bits_of

_ALPHANUMERIC = frozenset(b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_MOST_WORDS, _LONG_WORD = 20_000, 200
"""Most words that are kept, and the most bytes of each."""
_FEW_WORDS, _FEW_SPECIAL = 1_000, 50
"""Up to this many words, and this many of them that begin with neither a letter nor a digit, are processed one by one,
so that the results are shared with other lists; larger lists are followed all at once."""
_MANY_CHILDREN = 12
Opening = tuple[int, tuple[tuple[int, int], ...]]
"""(nodes inside the lexeme, ((outcome, nodes where it may end), ...))."""


def of_scalar(lexeme: Lexeme, punctuation: PunctuationTrie) -> tuple[int, int]:
    """Return (nodes inside the lexeme, nodes where it may end with any outcome)."""
    read, ended = opening_of(lexeme, punctuation)
    if len(ended) == 1:
        return read, ended[0][1]
    ends = 0
    for _, some in ended:
        ends |= some
    return read, ends


def opening_of(lexeme: Lexeme, punctuation: PunctuationTrie) -> Opening:
    found = _known(lexeme, punctuation)
    if found is None:
        if isinstance(lexeme, Literals):
            return _of_literals(lexeme, punctuation)
        if isinstance(lexeme, WithoutGiven):
            return _of_without_given(lexeme, punctuation)
        start = punctuation.root.below(QUOTE) if lexeme.is_string else punctuation.root
        if start is None:
            found = HERE, ()
        elif type(lexeme) is DfaLexeme:
            found = of_automaton(lexeme, start, punctuation)
        elif type(lexeme) is Counted and lexeme.is_any_count_alive(punctuation.longest_string):
            found = _of_counted(lexeme, punctuation)
        else:
            found = by_steps(lexeme, start)
        _keep(lexeme, punctuation, found)
    return found


def _known(lexeme: Lexeme, punctuation: PunctuationTrie) -> Opening | None:
    return None if lexeme.openings is None else lexeme.openings.get(punctuation.identity)


def _keep(lexeme: Lexeme, punctuation: PunctuationTrie, found: Opening) -> None:
    if lexeme.openings is None:
        lexeme.openings = {}
    lexeme.openings[punctuation.identity] = found


def of_automaton(lexeme: DfaLexeme, start: PunctuationNode, punctuation: PunctuationTrie) -> Opening:
    flags = np.zeros((2, len(punctuation.all)), np.bool_)
    kernels.walk_punctuation(
        punctuation.byte, punctuation.depth, punctuation.skip, start.number,
        lexeme.table, lexeme.accepting, lexeme.start, *flags,
    )  # fmt: skip
    ends = bits_of(flags[1])
    return HERE | 1 << start.number | bits_of(flags[0]), ((0, ends),) if ends else ()


def _of_counted(lexeme: Counted, punctuation: PunctuationTrie) -> Opening:
    """Take from the opening without bounds what has more characters, and the ends that have fewer."""
    begun = characters_begun(lexeme.every, punctuation)
    read, ended = opening_of(lexeme.inner, punctuation)
    room = begun[-1] if lexeme.high is None else begun[min(lexeme.high, len(begun) - 1)]
    short = begun[min(lexeme.low, len(begun)) - 1] if lexeme.low else 0
    fitting = [(outcome, ends & room & ~short) for outcome, ends in ended]
    return read & (room | HERE), tuple([each for each in fitting if each[1]])


def characters_begun(every: DfaLexeme, punctuation: PunctuationTrie) -> list[int]:
    """Return for each count the nodes inside a string, and those that end one, with no more characters begun."""
    start = punctuation.root.below(QUOTE)
    if not punctuation.begun and start is not None:
        found = [0] * (punctuation.longest_string + 1)
        pending = [(every.start, 0, start)]
        while pending:
            at, size, node = pending.pop()
            found[size] |= 1 << node.number
            for byte, below in node.children.items():
                after = every.next(at, byte)
                if after is None:
                    continue
                if every.grows(after):
                    pending.append((after, size + (at == every.start), below))
                else:
                    found[size] |= 1 << below.number
        punctuation.begun = list(accumulate(found, or_))
    return punctuation.begun


def by_steps(lexeme: Lexeme, start: PunctuationNode) -> Opening:
    """Find the opening of any lexeme byte by byte."""
    inside = HERE | 1 << start.number
    ended: dict[int, int] = {}
    pending = [(lexeme.start, start)]
    while pending:
        at, node = pending.pop()
        children: Iterable[int] = node.children
        if len(node.children) > _MANY_CHILDREN:  # most of them are refused: asking which are not is less work
            children = node.children.keys() & lexeme.next_bytes(at)
        for byte in children:
            tick()
            below, after = node.children[byte], lexeme.next(at, byte)
            if after is None:
                continue
            outcome = lexeme.outcome(after)
            if outcome is not None:
                ended[outcome] = ended.get(outcome, 0) | 1 << below.number
            if lexeme.grows(after):
                inside |= 1 << below.number
                if below.children:
                    pending.append((after, below))
    return inside, tuple(ended.items())


def _of_literals(lexeme: Literals, punctuation: PunctuationTrie) -> Opening:
    start = punctuation.root.below(QUOTE)
    if start is not None and _are_many(lexeme.words):
        found = by_steps(lexeme, start)
        _keep(lexeme, punctuation, found)
        return found
    read = 0
    ended: list[tuple[int, int]] = []
    for word, outcome in zip(lexeme.words, lexeme.outcomes, strict=True):
        inside, ends = of_word(word, punctuation)
        read |= inside
        if ends:
            ended.append((outcome, ends))
    return read, tuple(ended)


def _are_many(words: Sequence[bytes]) -> bool:
    return len(words) > _FEW_WORDS or sum(word[0] not in _ALPHANUMERIC for word in words) > _FEW_SPECIAL


def _of_without_given(lexeme: WithoutGiven, punctuation: PunctuationTrie) -> Opening:
    read, ended = opening_of(lexeme.inner, punctuation)
    start = punctuation.root.below(QUOTE) if lexeme.is_string else punctuation.root
    refused = 0
    for node in () if start is None else lexeme.dead_nodes(lexeme.start, start):
        refused |= (1 << int(punctuation.skip[node.number])) - (1 << node.number)
    return read & ~refused, tuple([(outcome, ends & ~refused) for outcome, ends in ended])


def of_word(word: bytes, punctuation: PunctuationTrie) -> tuple[int, int]:
    """Return (nodes inside the string spelled `word`, closing quote included, nodes where it ends)."""
    found = punctuation.words.get(word)
    if found is None:
        start = punctuation.root.below(QUOTE)
        if start is None:
            found = (HERE, 0)
        else:
            found = _plainly(word, start) if word[0] in _ALPHANUMERIC and punctuation.simple else None
            if found is None:
                inside, ended = by_steps(Literals([(word, 0)]), start)
                found = (inside, ended[0][1] if ended else 0)
        if len(word) <= _LONG_WORD:
            if len(punctuation.words) >= _MOST_WORDS:
                punctuation.words.clear()
            punctuation.words[word] = found
    return found


def _plainly(word: bytes, start: PunctuationNode) -> tuple[int, int] | None:
    """Compute `of_word` for a word without further escapes, of which a token spells at most the backslash; None if the
    word contains more."""
    inside = HERE | 1 << start.number
    escape = start.below(BACKSLASH)
    if escape is not None:
        inside |= 1 << escape.number
    node: PunctuationNode | None = start
    for byte in word:
        assert node is not None
        node = node.children.get(byte)
        if node is None:
            return inside, 0
        if byte == QUOTE:
            return inside, 1 << node.number
        if BACKSLASH in node.children:
            return None
        inside |= 1 << node.number
    raise AssertionError(word)
