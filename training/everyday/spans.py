"""Values of stretches that are marked where they stand in a text, such as `{task:call the bank}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from training.everyday.makers import NUMBERS, Row
from training.values import Value, quoted, string

_WHOLE, _BROKEN = ("count", "int", "year"), ("num", "decimal", "amount", "cost")
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
_SPOKEN = {"a": 1, "an": 1, "a dozen": 12, "two dozen": 24, **{word: number for number, word in enumerate(NUMBERS)}}


def written(kind: str, words: str) -> Value:
    """Return the value that `words` have for a slot of this kind. Raises `ValueError` where they hold no number."""
    if kind not in _WHOLE + _BROKEN:
        return string(words)
    digits = _DIGITS.search(words)
    if digits is None and words.lower() not in _SPOKEN:
        raise ValueError(f"no number in {words!r}")
    raw = digits[0].replace(",", "") if digits else str(_SPOKEN[words.lower()])
    return Value("integer" if kind in _WHOLE else "number", words, raw)


def array(items: Sequence[str]) -> Value:
    return Value("strings", ", ".join(items), "[" + ",".join(map(quoted, items)) + "]")


def common_parts(rows: Sequence[Row], parts: Iterable[str]) -> list[Row]:
    """Return the rows with those of `parts` alone that every one of them has, in that order."""
    shared = [name for name in parts if all(name in row for row in rows)]
    return [{name: row[name] for name in shared} for row in rows]
