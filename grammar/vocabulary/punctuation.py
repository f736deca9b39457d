"""The trie of punctuation: all that tokens spell outside strings, and sets of its nodes as whole numbers.

Outside strings JSON leaves a vocabulary little room: tokens spell a few hundred pieces of punctuation. The trie holds
all of them, and what is left of each after any whole lexeme. What can be read after a lexeme is then one set, wherever
the lexeme ended: bit n of a number says that the text of node n can be read. Bit 0 is the empty text, which can be read
wherever there is any way on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.vocabulary.trie_node import TrieNode

HERE = 1
_LEXEME = re.compile(
    rb'[ \t\r\n]++|[{}\[\]:,]|"(?:[^"\\\x00-\x1f]|\\.)*+"|-?[0-9][0-9.eE+-]*+|true|false|null', re.DOTALL
)
_MOST = 20_000
"""Most sets cached by `lift` for each node, and by `behind`."""
_FEW = 16
"""Bits of a set up to which they are found one by one."""


class PunctuationNode(TrieNode):
    """`number`: its bit; `ids`: this number, if some token spells exactly this text somewhere."""

    __slots__ = ("_lifted", "_up", "domain", "forks", "number")
    number: int
    _lifted: dict[int, int]
    _up: dict[int, int]
    domain: int
    """Nodes that can come after this one."""
    forks: int
    """Those of them after which more can come."""

    def prepare(self, punctuation: PunctuationTrie) -> None:
        """Find what stands behind this node, which matters where a lexeme ends."""
        self._lifted = {}
        self._up = {}
        self.domain = self.forks = 0
        cut = len(self.path)
        for below in _subtree(self):
            own = punctuation.by_path.get(below.path[cut:])
            if own is not None:
                self._up[own.number] = 1 << below.number
                self.domain |= 1 << own.number
                if below.children:
                    self.forks |= 1 << own.number

    def below(self, byte: int) -> PunctuationNode | None:
        return self.children.get(byte)

    def lift(self, found: int) -> int:
        """Return the nodes of `found`, which can be read behind this one, as read from where this one begins."""
        found &= self.domain
        known = self._lifted.get(found)
        if known is None:
            known = 0
            for number in bit_numbers(found):
                known |= self._up[number]
            if len(self._lifted) >= _MOST:
                self._lifted.clear()
            self._lifted[found] = known
        return known


class PunctuationTrie:
    """`words`: what tokens spell outside strings, from wherever a lexeme ends or none has begun."""

    def __init__(self, words: Iterable[bytes]) -> None:
        self.by_path: dict[bytes, PunctuationNode] = {}
        self.all: list[PunctuationNode] = []
        self.root = self._node(b"")
        for text in sorted({rest for word in words for rest in _rests(word)}):
            self._insert(text)
        for node in self.all:
            node.prepare(self)
        # Inserted in order, so numbers are those of a depth-first walk: the trie as arrays, for the compiled loop.
        self.byte = np.array([node.path[-1] if node.path else 0 for node in self.all], np.uint8)
        self.depth = np.array([len(node.path) for node in self.all], np.int32)
        self.skip = np.array([node.number + sum(1 for _ in _subtree(node)) for node in self.all], np.int32)
        quote = self.root.below(QUOTE)
        inside = () if quote is None else _subtree(quote)
        self.longest_string = max((len(node.path) - 1 for node in inside), default=0)
        """Most bytes of a token behind an opening quote."""
        self._behind: dict[tuple[int, int], int] = {}
        self.words: dict[bytes, tuple[int, int]] = {}
        """What strings read from their opening quote on; see `reach`."""
        self.identity = object()
        """Names it in what lexemes keep of it, which may live longer."""
        self.begun: list[int] = []
        """By number of characters, nodes that strings reach with no more; empty until `openings` is asked for them."""
        self.simple = self.root.find(b'"\\u') is None
        """Whether no token contains enough of an escape to be any character's."""

    def _node(self, path: bytes) -> PunctuationNode:
        node = self.by_path[path] = PunctuationNode(path)
        node.number = len(self.all)
        self.all.append(node)
        return node

    def _insert(self, word: bytes) -> None:
        node = self.root
        for i, byte in enumerate(word):
            below = node.children.get(byte)
            if below is None:
                below = node.children[byte] = self._node(word[: i + 1])
            node = below
        node.ids = np.array([node.number], np.int32)

    def number(self, text: bytes) -> int | None:
        """Return the number of the node that spells `text`. None where no token goes on with it."""
        found = self.by_path.get(text)
        return None if found is None else found.number

    def behind(self, ends: int, found: int) -> int:
        """Return `found`, read behind each of `ends`."""
        if ends == HERE or not found:
            return found if ends else 0
        known = self._behind.get((ends, found))
        if known is None:
            known = 0
            for number in bit_numbers(ends):
                known |= self.all[number].lift(found)
            if len(self._behind) >= _MOST:
                self._behind.clear()
            self._behind[ends, found] = known
        return known


def bits_of(flags: npt.NDArray[np.bool_]) -> int:
    """Return the set of nodes whose flag is set."""
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def bit_numbers(bits: int) -> list[int]:
    """Return the numbers of the bits that are set, ascending."""
    if bits.bit_count() > _FEW:
        packed = np.frombuffer(bits.to_bytes((bits.bit_length() + 7) // 8, "little"), np.uint8)
        many: list[int] = np.flatnonzero(np.unpackbits(packed, bitorder="little")).tolist()
        return many
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


def _subtree(node: PunctuationNode) -> Iterator[PunctuationNode]:
    yield node
    for below in node.children.values():
        yield from _subtree(below)


def _rests(word: bytes) -> Iterator[bytes]:
    """Yield `word`, and its rest after each lexeme it spells."""
    at = 0
    while at < len(word):
        yield word[at:]
        lexeme = _LEXEME.match(word, at)
        if lexeme is None:
            return
        at = lexeme.end()
