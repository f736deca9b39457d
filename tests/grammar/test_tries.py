"""A vocabulary's flat tries, beside dictionaries that hold the words themselves."""

from __future__ import annotations

import random
from collections import defaultdict

import numpy as np
import pytest

from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary.trie import FlatTrie, build_flat, is_in_order, order_of, without
from sluicegate.grammar.vocabulary.word_bytes import word_bytes


def drawn(seed: int) -> list[bytes]:
    pick = random.Random(seed)
    return [
        bytes(pick.choices(b'ab\xc3\xa9"\\', k=pick.choice([0, 1, 1, 2, 3, 4]))) for _ in range(pick.randint(0, 40))
    ]


def by_path(trie: FlatTrie) -> dict[bytes, list[int]]:
    """Return the tokens by what their node spells, for every node."""
    found, path = {}, bytearray()
    for node in range(trie.size):
        del path[int(trie.depth[node]) - 1 :]
        path.append(trie.byte[node])
        found[bytes(path)] = trie.at(node).tolist()
        below = [i for i in range(node + 1, trie.size) if i < trie.skip[node]]
        assert all(trie.depth[i] > trie.depth[node] for i in below)
        assert trie.skip[node] == trie.size or trie.depth[trie.skip[node]] <= trie.depth[node]
        assert trie.find(bytes(path)) == node
    return found


def expected(words: list[bytes], tokens: list[int]) -> dict[bytes, list[int]]:
    found: defaultdict[bytes, list[int]] = defaultdict(list)
    for token in tokens:
        for size in range(1, len(words[token]) + 1):
            found[words[token][:size]] += [token] if size == len(words[token]) else []
    return dict(found)


def as_row(tokens: list[int], size: int) -> I32:
    bits = np.zeros((size + 32) // 32 * 32, np.bool_)
    bits[tokens] = True
    return np.packbits(bits, bitorder="little").view(np.int32)


@pytest.mark.parametrize("seed", range(60))
def test_a_trie_without_some_tokens_is_that_of_the_others(seed: int) -> None:
    words = drawn(seed)
    trie = build_flat(word_bytes(words), order_of(words))
    assert by_path(trie) == expected(words, [token for token, word in enumerate(words) if word])
    gone = random.Random(seed).sample(range(len(words)), len(words) * (seed % 4) // 3)
    rest = without(trie, as_row(gone, len(words)))
    left = [token for token, word in enumerate(words) if word and token not in gone]
    assert by_path(rest) == expected(words, left)
    anew = build_flat(word_bytes(words), np.array([t for t in order_of(words).tolist() if t not in gone], np.int32))
    for part in ("byte", "depth", "skip", "first", "exact", "ids", "roots"):
        assert np.array_equal(getattr(rest, part), getattr(anew, part))
    for mine, other in zip(rest.nodes, anew.nodes, strict=True):
        assert np.array_equal(mine, other)


@pytest.mark.parametrize("seed", range(20))
def test_nodes_lie_level_by_level_with_their_children_side_by_side(seed: int) -> None:
    words = drawn(seed)
    trie = build_flat(word_bytes(words), order_of(words))
    letters, nodes = trie.nodes
    assert sorted(nodes[:, 7].tolist()) == list(range(-1, trie.size))
    depths = [0, *trie.depth[nodes[1:, 7]].tolist()]
    assert depths == sorted(depths)
    for new, (low, high, first, own, below, _, tall, node) in enumerate(nodes.tolist()):
        assert [trie.child(node, byte) for byte in letters[low:high].tolist()] == nodes[low:high, 7].tolist()
        assert high - low == sum(trie.child(node, byte) >= 0 for byte in range(256))
        if new:
            assert letters[new] == trie.byte[node]
            assert trie.ids[first:own].tolist() == trie.at(node).tolist()
            assert below == trie.first[trie.skip[node]]
            assert tall == max(trie.depth[node : trie.skip[node]]) - trie.depth[node]


@pytest.mark.parametrize("seed", range(40))
def test_only_the_order_of_all_words_is_taken_for_it(seed: int) -> None:
    words, pick = drawn(seed), random.Random(seed)
    order = order_of(words)
    assert is_in_order(word_bytes(words), order)
    if order.size > 1:
        i, j = sorted(pick.sample(range(order.size), 2))
        swapped = order.copy()
        swapped[[i, j]] = order[[j, i]]
        assert not is_in_order(word_bytes(words), swapped)
        assert not is_in_order(word_bytes(words), order[1:])
        order[i] = order[j]
        assert not is_in_order(word_bytes(words), order)


def test_tokens_are_found_by_the_bytes_they_hold() -> None:
    for seed in range(40):
        words = drawn(seed)
        found = word_bytes(words)
        for byte in b'ab"\\x\0':
            assert found.holding(byte) == [t for t, word in enumerate(words) if byte in word]
            assert found.beginning([byte, 0xC3]) == [
                t for t, word in enumerate(words) if word and word[0] in (byte, 0xC3)
            ]
