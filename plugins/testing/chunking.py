"""Ways to cut a text into the pieces of a stream. A rail must come to the same outcome for all of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

LONGEST_PIECE = 12
"""Longest random piece in characters: about two tokens, as engines that speculate send them."""


@dataclass(frozen=True, slots=True)
class Chunking:
    """`"".join(pieces)` is the text; no piece is empty. `name` says how it was cut, for messages."""

    name: str
    pieces: tuple[str, ...]


def chunkings(
    text: str, spans: Iterable[tuple[int, int]] = (), *, seed: int = 0, random_cuts: int = 4
) -> list[Chunking]:
    """Cut a text: whole, by character, in halves, in random pieces (the same for the same `seed`), and at the borders
    and inside of each of `spans`, [start, end) offsets: where a rail that sees one piece at a time goes blind."""
    found = [
        Chunking("whole", (text,) if text else ()),
        Chunking("by character", tuple(text)),
        _cut("in halves", text, [len(text) // 2]),
    ]
    found += [_cut(f"in random pieces ({seed}.{i})", text, _random_cuts(text, seed, i)) for i in range(random_cuts)]
    for start, end in spans:
        found += [_cut(f"cut at {place}", text, [place]) for place in _places(start, end)]
        found.append(_cut(f"cut around {start}..{end}", text, [start, end]))
    return list(_different(found))


def _places(start: int, end: int) -> list[int]:
    return sorted({start + 1, (start + end) // 2, end - 1} - {start, end})


def _random_cuts(text: str, seed: int, number: int) -> list[int]:
    chance = random.Random(f"{seed}.{number}")
    cuts = [0]
    while cuts[-1] < len(text):
        cuts.append(cuts[-1] + chance.randint(1, LONGEST_PIECE))
    return cuts


def _cut(name: str, text: str, cuts: Sequence[int]) -> Chunking:
    borders = [0, *sorted(cut for cut in cuts if 0 < cut < len(text)), len(text)]
    pieces = (text[start:end] for start, end in pairwise(borders))
    return Chunking(name, tuple(piece for piece in pieces if piece))


def _different(found: Iterable[Chunking]) -> Iterator[Chunking]:
    seen: set[tuple[str, ...]] = set()
    for chunking in found:
        if chunking.pieces not in seen:
            seen.add(chunking.pieces)
            yield chunking
