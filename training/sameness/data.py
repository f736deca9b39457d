"""Pairs of questions for training a judge of sameness: families of wordings and near misses, and the benchmarks' pairs.

`families_one.txt` and `families_two.txt` were written for this by two hands that knew neither rules nor pairs. A family
is a block of lines: those with `=` all ask the same, those with `-` something else.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

from benchmarks.cache import EIGHTH_HAND, LATER_HANDS, PAIRS, pairs

FAMILIES = sorted(Path(__file__).parent.glob("families_*.txt"))
HELD_SHARE = 8
"""Per cent of families that are kept from training, to measure with."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """Two questions, whether one answer serves both, who wrote them, and of which family they are."""

    one: str
    other: str
    same: bool
    author: str
    family: str


def families(path: Path) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the wordings and the near misses of each family. Raises `ValueError` for a line of another form."""
    for block in path.read_text("utf-8").split("\n\n"):
        told: dict[str, list[str]] = {"= ": [], "- ": []}
        for line in filter(None, block.splitlines()):
            if line[:2] not in told:
                raise ValueError(f"{path.name}: a line begins with neither '= ' nor '- ': {line!r}")
            told[line[:2]].append(line[2:].strip())
        if told["= "]:
            yield told["= "], told["- "]


def pairs_of_families() -> Iterator[Labelled]:
    for path in FAMILIES:
        author = path.stem.removeprefix("families_")
        for number, (wordings, near) in enumerate(families(path)):
            family = f"{author}:{number}"
            for one, other in combinations(wordings, 2):
                yield Labelled(one, other, True, author, family)
            for one, other in product(wordings, near):
                yield Labelled(one, other, False, author, family)


def pairs_of_benchmarks() -> Iterator[Labelled]:
    """Yield the pairs of the files beside the benchmark of the cache; their authors are named by the file. The eighth
    hand's are for one measurement, of what was frozen, and are left out."""
    for path in sorted({*PAIRS.parent.glob("pairs*.txt")} - {EIGHTH_HAND}):
        for pair in pairs(path):
            yield Labelled(pair.one, pair.other, pair.same, path.stem, f"{path.stem}:{pair.one}")


def split() -> tuple[list[Labelled], list[Labelled], list[Labelled]]:
    """Return the pairs to train with, those of held-out families, and those of the four later hands, of which training
    knows nothing: a pair whose questions both stand in those is left out, whoever wrote it."""
    hands = {path.stem for path in LATER_HANDS}
    written = list(pairs_of_benchmarks())
    made = list(pairs_of_families())
    held = [pair for pair in made if _is_held(pair.family)]
    train = [pair for pair in made if not _is_held(pair.family)]
    train += [pair for pair in written if pair.author not in hands]
    later = [pair for pair in written if pair.author in hands]
    measured = {text.lower() for pair in held + later for text in (pair.one, pair.other)}
    return [pair for pair in train if not {pair.one.lower(), pair.other.lower()} <= measured], held, later


def _is_held(family: str) -> bool:
    return zlib.crc32(family.encode()) % 100 < HELD_SHARE
