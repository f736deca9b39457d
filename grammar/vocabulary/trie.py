"""A vocabulary as tries: a flat one for compiled walks, and small linked ones for the few structural tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.vocabulary.pruning import describe
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.word_bytes import WordBytes
from sluicegate.plugins.compiled.kernels import kernel
from sluicegate.plugins.concurrency.unlocked import cached_property

I32 = npt.NDArray[np.int32]
U8 = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class FlatTrie:
    """Nodes in depth-first order, children by ascending byte.

    `byte` uint8[N], `depth` int32[N] (1 = first byte), `skip` int32[N] (next node outside the subtree), `first`
    int32[N + 1]: tokens spelled exactly by node i are `ids[first[i]:first[i] + exact[i]]`; those of its whole subtree
    are `ids[first[i]:first[skip[i]]]`.
    """

    byte: U8
    depth: I32
    skip: I32
    first: I32
    exact: I32
    ids: I32
    roots: I32
    """int32[256]: the node of depth 1 for each byte; -1 = none."""

    @property
    def size(self) -> int:
        return int(self.byte.shape[0])

    @cached_property
    def most(self) -> int:
        """Return how many tokens at most spell the same word."""
        return max(1, int(self.exact.max(initial=0)))

    @cached_property
    def nodes(self) -> tuple[U8, I32]:
        """Return the trie in the form that walks read, see `pruning.describe`."""
        letters, nodes = np.empty(self.size + 1, np.uint8), np.empty((self.size + 1, 8), np.int32)
        describe(self.byte, self.depth, self.first, self.exact, letters, nodes)
        return letters, nodes

    def at(self, node: int) -> I32:
        """Return the tokens spelled exactly by `node`; none by -1."""
        if node < 0:
            return self.ids[:0]
        first = self.first[node]
        return self.ids[first : first + self.exact[node]]

    def child(self, node: int, byte: int) -> int:
        """Return the node below `node` (-1: the root) for `byte`, or -1."""
        if node < 0:
            return int(self.roots[byte])
        below, end = node + 1, int(self.skip[node])
        while below < end and self.byte[below] < byte:
            below = int(self.skip[below])
        return below if below < end and self.byte[below] == byte else -1

    def find(self, word: bytes, node: int = -1) -> int:
        """Return the node that spells `word`, from the root or from `node` on; -1 where there is none."""
        for byte in word:
            node = self.child(node, byte)
            if node < 0:
                return -1
        return node


@kernel(
    "(Array(uint8, 1, 'C', True), int64[::1], int64[::1], uint8[::1], int32[::1], int32[::1], int32[::1], int32[::1])",
    python=True,
)
def _build(data, starts, ends, byte, depth, skip, first, exact):  # type: ignore[no-untyped-def]
    """Insert sorted words; returns the number of nodes. Same as inserting each word into a trie of dicts."""
    count = 0
    longest = 0
    for i in range(starts.size):
        longest = max(longest, ends[i] - starts[i])
    path = np.empty(longest + 1, np.int32)
    open_depth = 0
    previous = -1
    for i in range(starts.size):
        size = ends[i] - starts[i]
        common = 0
        if previous >= 0:
            limit = min(size, ends[previous] - starts[previous])
            while common < limit and data[starts[i] + common] == data[starts[previous] + common]:
                common += 1
        for d in range(common, open_depth):
            skip[path[d]] = count
        for d in range(common, size):
            byte[count] = data[starts[i] + d]
            depth[count] = d + 1
            first[count] = i
            exact[count] = 0
            path[d] = count
            count += 1
        open_depth = size
        exact[path[size - 1]] += 1
        previous = i
    for d in range(open_depth):
        skip[path[d]] = count
    first[count] = starts.size
    return count


@kernel("(Array(uint8, 1, 'C', True), int64[::1], int64[::1], int32[::1])", python=True)
def _is_sorted(data, starts, ends, order):  # type: ignore[no-untyped-def]
    """Return whether each word stands before the next, or is the same and of a token with a smaller number."""
    for i in range(1, starts.size):
        size, other = ends[i - 1] - starts[i - 1], ends[i] - starts[i]
        limit = min(size, other)
        k = 0
        while k < limit and data[starts[i - 1] + k] == data[starts[i] + k]:
            k += 1
        if k < limit:
            if data[starts[i - 1] + k] > data[starts[i] + k]:
                return False
        elif size > other or (size == other and order[i - 1] >= order[i]):
            return False
    return True


@kernel(
    "(uint8[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], "
    "uint8[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1])",
    python=True,
)
def _without(  # type: ignore[no-untyped-def]
    byte, depth, skip, first, exact, ids, row, new_byte, new_depth, new_skip, new_first, new_exact, new_ids
):
    """Copy the nodes below which a token is that `row` has not; returns how many nodes and tokens there are."""
    before = np.empty(ids.size + 1, np.int32)
    tokens = 0
    for k in range(ids.size):
        before[k] = tokens
        token = ids[k]
        if (row[token >> 5] >> (token & 31)) & 1 == 0:
            new_ids[tokens] = token
            tokens += 1
    before[ids.size] = tokens
    path = np.empty(1024, np.int32)
    open_depth = 0
    count = 0
    i = 0
    while i < byte.size:
        begin = before[first[i]]
        if before[first[skip[i]]] == begin:
            i = skip[i]
            continue
        d = depth[i]
        for k in range(d, open_depth + 1):
            new_skip[path[k]] = count
        new_byte[count] = byte[i]
        new_depth[count] = d
        new_first[count] = begin
        new_exact[count] = before[first[i] + exact[i]] - begin
        path[d] = count
        open_depth = d
        count += 1
        i += 1
    for k in range(1, open_depth + 1):
        new_skip[path[k]] = count
    new_first[count] = tokens
    return count, tokens


def order_of(words: Sequence[bytes]) -> I32:
    """Return the tokens in the order of their bytes, those that spell the same in their own; without empty ones."""
    spelled = [token for token, word in enumerate(words) if word]
    return np.array(sorted(spelled, key=words.__getitem__), np.int32)


def build_flat(words: WordBytes, order: I32) -> FlatTrie:
    """Build the trie of the tokens in `order`: all, or some of them, in the order of `order_of`."""
    starts, ends = words.starts[order], words.ends[order]
    room = int((ends - starts).sum()) + 1
    byte, depth, skip = np.empty(room, np.uint8), np.empty(room, np.int32), np.empty(room, np.int32)
    first, exact = np.empty(room + 1, np.int32), np.zeros(room, np.int32)
    n = _build(words.data, starts, ends, byte, depth, skip, first, exact) if order.size else 0
    first[n] = order.size
    return _flat(byte, depth, skip, first, exact, order, n)


def without(trie: FlatTrie, row: I32) -> FlatTrie:
    """Return the trie of the tokens that are not in the bitmask `row`."""
    byte, ids = np.empty_like(trie.byte), np.empty_like(trie.ids)
    depth, skip, first, exact = map(np.empty_like, (trie.depth, trie.skip, trie.first, trie.exact))
    n, tokens = _without(
        trie.byte, trie.depth, trie.skip, trie.first, trie.exact, trie.ids, row, byte, depth, skip, first, exact, ids
    )
    return _flat(byte, depth, skip, first, exact, ids[:tokens], n)


def _flat(byte: U8, depth: I32, skip: I32, first: I32, exact: I32, ids: I32, n: int) -> FlatTrie:
    """Return a trie of `n` nodes. Arrays are cut, not copied: what lies behind was never written to and takes no
    memory."""
    roots = np.full(256, -1, np.int32)
    tops = np.flatnonzero(depth[:n] == 1)
    roots[byte[tops]] = tops
    return FlatTrie(byte[:n], depth[:n], skip[:n], first[: n + 1], exact[:n], ids, roots)


def is_in_order(words: WordBytes, order: I32) -> bool:
    """Return whether `order` is what `order_of` returns for `words`; its numbers must be tokens of `words`."""
    starts, ends = words.starts[order], words.ends[order]
    whole = order.size == np.count_nonzero(words.sizes) and bool((starts < ends).all())
    return whole and bool(_is_sorted(words.data, starts, ends, order))


_OF_WORD = 1
"""Work charged for a word that is put into a trie."""


def build_trie(words: Iterable[tuple[bytes, int]]) -> TrieNode:
    root = TrieNode(b"")
    ends: dict[int, tuple[TrieNode, list[int]]] = {}
    for word, number in words:
        charge(_OF_WORD)
        node = root
        for i, b in enumerate(word):
            below = node.children.get(b)
            if below is None:
                below = node.children[b] = TrieNode(word[: i + 1])
            node = below
        ends.setdefault(id(node), (node, []))[1].append(number)
    for node, numbers in ends.values():
        tick()
        node.ids = np.array(sorted(numbers), np.int32)
    return root


TRIE_KERNELS = [_build, _is_sorted, _without]
