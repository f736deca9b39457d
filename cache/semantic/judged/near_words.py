"""Words that may mean the same: they bring two questions before a judge, and never serve one.

`near_words.txt` holds one row a sense; two expressions of one row are near. A word may stand in several rows, so
nearness is no equality: "open" is near "start" and "start" near "begin" without "open" being near "begin".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files

from sluicegate.cache.semantic.frames import base
from sluicegate.cache.semantic.lexicon import singular, stem

LONGEST = 3
"""Most words of an expression."""


@cache
def _rows() -> dict[tuple[str, ...], frozenset[int]]:
    """Return the numbers of the rows that each expression stands in."""
    text = files("sluicegate.cache.semantic.judged").joinpath("near_words.txt").read_text("utf-8")
    found: dict[tuple[str, ...], set[int]] = {}
    for number, line in enumerate(text.splitlines()):
        for word in line.partition("#")[0].split():
            found.setdefault(tuple(map(form, word.split("-"))), set()).add(number)
    return {expression: frozenset(numbers) for expression, numbers in found.items()}


@cache
def form(word: str) -> str:
    """Return a word without its ending, as far as tables know it."""
    one = singular(word)
    return base(one) if one.endswith("ed") or base(one) != one else stem(one)


def near_rows(words: Sequence[str]) -> Iterator[frozenset[int]]:
    """Yield the rows of each word or expression of a text, longest expressions first; nothing for what stands in no
    row."""
    known, place = _rows(), 0
    forms = tuple(map(form, words))
    while place < len(forms):
        for length in range(LONGEST, 0, -1):
            numbers = known.get(forms[place : place + length])
            if numbers and place + length <= len(forms):
                yield numbers
                place += length
                break
        else:
            place += 1


def is_listed(word: str) -> bool:
    """Return whether a word stands in a row by itself."""
    return (form(word),) in _rows()


def are_near(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two expressions stand in one row."""
    known = _rows()
    none: frozenset[int] = frozenset()
    first, second = (known.get(tuple(map(form, words)), none) for words in (one, other))
    return not first.isdisjoint(second)
