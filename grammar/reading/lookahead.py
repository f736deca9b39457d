"""Lookahead sets: what can be read next, as sets of nodes of the trie of punctuation.

A set is put together by a few operations on whole numbers, most of them remembered, from what is known of the schema;
a vocabulary turns it into tokens. No single token is looked at.

A string counts from before its opening quote, so that all sets begin where a lexeme begins. What follows a value may be
unknown: `ends` are the nodes where it begins.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.vocabulary.punctuation import HERE, PunctuationNode, PunctuationTrie

Doubtful = tuple[tuple[Guard, ...], bool, int, int]
"""(guards, whether they guard the string that is being read, `read` and `ends` if all of them agree)."""
_NESTING = frozenset(b'{}[]"')


class Lookahead:
    """Bit sets of nodes, see `punctuation`. `read`: the texts that can be read, the empty one if there is a way on;
    `ends`: where what follows a value begins, as long as that is unknown. Immutable."""

    __slots__ = ("doubtful", "ends", "read")

    def __init__(self, read: int, ends: int = 0, doubtful: tuple[Doubtful, ...] = ()) -> None:
        self.read = read
        self.ends = ends
        self.doubtful = doubtful

    def whole(self) -> Lookahead:
        """Return this lookahead without continuations."""
        return Lookahead(self.read, 0, tuple([(guards, direct, read, 0) for guards, direct, read, _ in self.doubtful]))


OVER = Lookahead(HERE)
"""Nothing more can be read, and nothing needs to be."""
HOLE = Lookahead(0, HERE)
"""What follows is unknown."""


def joined(parts: Iterable[Lookahead]) -> Lookahead:
    """Return the union of `parts`."""
    read = ends = 0
    doubtful: tuple[Doubtful, ...] = ()
    for part in parts:
        read |= part.read
        ends |= part.ends
        if part.doubtful:
            doubtful += part.doubtful
    return Lookahead(read, ends, doubtful)


def under(guard: Guard | None, found: Lookahead, direct: bool = False) -> Lookahead:
    """Make all of `found` depend on `guard`."""
    if guard is None:
        return found
    doubtful: list[Doubtful] = [((guard,), direct, found.read, found.ends)]
    doubtful += [((guard, *guards), inner, read, ends) for guards, inner, read, ends in found.doubtful]
    return Lookahead(0, 0, tuple(doubtful))


def after_byte(node: PunctuationNode, found: Lookahead) -> Lookahead:
    """Return `found` behind `node`, which is a single byte."""
    if not found.ends and not found.doubtful:
        return Lookahead(node.lift(found.read), 0, ())
    plain = node.path[0] not in _NESTING
    doubtful = [(g, d and plain, node.lift(read), node.lift(ends)) for g, d, read, ends in found.doubtful]
    return Lookahead(node.lift(found.read), node.lift(found.ends), _possible(doubtful))


def behind(punctuation: PunctuationTrie, ends: int, found: Lookahead) -> Lookahead:
    """Return `found` behind each of `ends`."""
    if not found.ends and not found.doubtful:
        return Lookahead(punctuation.behind(ends, found.read), 0, ())
    doubtful = [(g, False, punctuation.behind(ends, r), punctuation.behind(ends, e)) for g, _, r, e in found.doubtful]
    read, more = punctuation.behind(ends, found.read), punctuation.behind(ends, found.ends)
    return Lookahead(read, more, _possible(doubtful))


def _possible(doubtful: list[Doubtful]) -> tuple[Doubtful, ...]:
    """Drop what no token spells: few guards can be met in one token."""
    return tuple([each for each in doubtful if each[2] or each[3]])
