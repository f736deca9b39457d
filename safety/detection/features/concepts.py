"""Concepts: what a text names, whatever the word and the language: "ignore", "disregard" and "vergiss" are one.

`concepts.txt` lists the words of each concept. A text becomes the sequence of the concepts that it names; neighbours in
that sequence are features beside the n-grams of `features`, so that what is learned of "ignore your instructions" holds
for the same act on the same target in words that no training text had.

Not covered: words that the list does not hold, and what a word means where it stands: "drop" is an act on rules here,
even in a recipe. The weights decide what a concept is worth, among its neighbours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sluicegate.safety.detection.features import scripts

Integers = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

LISTED = Path(__file__).parent / "concepts.txt"
BASE = 0x9E3779B97F4A7C15 | 1
PAIR = 0x100000001B3


@dataclass(frozen=True, slots=True)
class WordTable:
    """Sorted hashes, and the concept of each."""

    hashes: Hashes
    concepts: Integers

    def of(self, hashes: Hashes) -> Integers:
        """Return the concept of each hash, -1 for none."""
        if not len(self.hashes) or not len(hashes):
            return np.full(len(hashes), -1, dtype=np.int64)
        at = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        found: Integers = np.where(self.hashes[at] == hashes, self.concepts[at], -1)
        return found


@dataclass(frozen=True, slots=True)
class Concepts:
    """`names` in order: a concept is its place there, below 100. `words`, `pairs`: by the hash of a word, of two in a
    row. `beginnings`: length -> by the hash of so many characters. `strings`: length -> the same, anywhere."""

    names: tuple[str, ...]
    words: WordTable
    pairs: WordTable
    beginnings: dict[int, WordTable]
    strings: dict[int, WordTable]


@cache
def listed() -> Concepts:
    """Read the list that comes with the package."""
    text = LISTED.read_text("utf-8")
    kinds: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for concept, entry in entries(text):
        kind, length, key = _key(entry)
        kinds[kind, length].setdefault(key, concept)
    tables = {(kind, length): _table(kind, rows) for (kind, length), rows in kinds.items()}
    empty = _table("word", {})
    by_length = {
        kind: {length: table for (name, length), table in tables.items() if name == kind}
        for kind in ("beginning", "string")
    }
    names = tuple(line[1:-1] for line in text.splitlines() if line.startswith("["))
    words, pairs = tables.get(("word", 0), empty), tables.get(("pair", 0), empty)
    return Concepts(names, words, pairs, by_length["beginning"], by_length["string"])


def entries(text: str) -> Iterator[tuple[int, str]]:
    """Yield (concept, entry) of each entry of a list in the form of `concepts.txt`."""
    concept = -1
    for line in text.splitlines():
        if line.startswith("["):
            concept += 1
        elif not line.startswith("#"):
            yield from ((concept, entry) for entry in line.split())


def _key(entry: str) -> tuple[str, int, str]:
    """Return the kind of an entry, its length in characters (0 for words and pairs), and what of it is hashed."""
    if "_" in entry:
        return "pair", 0, entry
    if entry.endswith("*"):
        return "beginning", len(entry) - 1, entry[:-1]
    if scripts.WITHOUT_SPACES.fullmatch(entry):
        return "string", len(entry), entry
    return "word", 0, entry


def _table(kind: str, rows: Mapping[str, int]) -> WordTable:
    hashes = _pairs_of(rows) if kind == "pair" else hashes_of([*rows])
    order = np.argsort(hashes)
    return WordTable(hashes[order], np.array(list(rows.values()), dtype=np.int64)[order])


def _pairs_of(entries: Iterable[str]) -> Hashes:
    parted = [entry.split("_", 1) for entry in entries]
    return _pair(hashes_of([one for one, _ in parted]), hashes_of([two for _, two in parted]))


def hashes_of(words: Sequence[str]) -> Hashes:
    """Return [len(words)] the polynomial hashes that `features` takes of words."""
    end = np.cumsum([len(word) for word in words], dtype=np.int64)
    begin = np.concatenate(([0], end))[: len(words)].astype(np.int64)
    return Spans(codes_of("".join(words))).hashes(begin, end)


def codes_of(text: str) -> Hashes:
    """Return [len(text)] the code points of a text; all digits are one."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32).astype(np.uint64)
    codes[(codes >= 48) & (codes <= 57)] = 48
    return codes


class Spans:
    """Hashes of any stretches of a text, from one prefix sum modulo 2**64 (the base is odd, so invertible)."""

    def __init__(self, codes: Hashes) -> None:
        self.codes = codes
        self._prefix = np.zeros(len(codes) + 1, dtype=np.uint64)
        np.cumsum((codes + np.uint64(1)) * _powers(BASE, len(codes)), out=self._prefix[1:])
        self._back = _powers(pow(BASE, -1, 1 << 64), len(codes) + 1)

    def hashes(self, begin: Integers, end: Integers) -> Hashes:
        """Return the polynomial hash of each codes[begin:end]."""
        found: Hashes = (self._prefix[end] - self._prefix[begin]) * self._back[begin]
        return found


def _powers(base: int, n: int) -> Hashes:
    table = np.full(n, base & 0xFFFFFFFFFFFFFFFF, dtype=np.uint64)
    if n:
        table[0] = 1
    return np.cumprod(table, dtype=np.uint64)


def places(
    spans: Spans, words: Hashes, begin: Integers, end: Integers, part: Integers, unspaced: Integers
) -> tuple[Integers, Integers]:
    """Return where concepts are named (ascending), and which. `words` are the hashes of the words at `begin` to `end`;
    `part` numbers the parts of the text, which no entry of several words or characters crosses; `unspaced`: where
    characters of scripts without spaces stand."""
    known = listed()
    named = np.full(len(words), -1, dtype=np.int64)
    for length in sorted(known.beginnings):
        long = np.flatnonzero(end - begin >= length)
        found = known.beginnings[length].of(spans.hashes(begin[long], begin[long] + length))
        named[long] = np.where(found >= 0, found, named[long])
    alone = known.words.of(words)
    named = np.where(alone >= 0, alone, named)
    together = np.where(part[begin[1:]] == part[begin[:-1]], known.pairs.of(_pair(words[:-1], words[1:])), -1)
    named[:-1] = np.where(together >= 0, together, named[:-1])
    hit = np.flatnonzero(named >= 0)
    at, which = begin[hit], named[hit]
    if not len(unspaced):
        return at, which
    more_at, more = _within(spans, unspaced, part, known)
    order = np.argsort(np.concatenate((at, more_at)), kind="stable")
    return np.concatenate((at, more_at))[order], np.concatenate((which, more))[order]


def _pair(one: Hashes, other: Hashes) -> Hashes:
    """Return the hashes of two words in a row."""
    pairs: Hashes = one * np.uint64(PAIR) + other
    return pairs


def _within(spans: Spans, unspaced: Integers, part: Integers, known: Concepts) -> tuple[Integers, Integers]:
    """Find strings wherever they stand, the longest first; none begins within another."""
    taken = np.zeros(len(spans.codes) + 16, dtype=bool)
    at, which = [], []
    for length in sorted(known.strings, reverse=True):
        begin = unspaced[unspaced + length <= len(spans.codes)]
        begin = begin[part[begin] == part[begin + length - 1]]
        found = known.strings[length].of(spans.hashes(begin, begin + length))
        hit = np.flatnonzero((found >= 0) & ~taken[begin])
        for i in range(length):
            taken[begin[hit] + i] = True
        at.append(begin[hit])
        which.append(found[hit])
    return np.concatenate(at), np.concatenate(which)
