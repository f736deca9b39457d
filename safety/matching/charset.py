"""Sets of characters in patterns: predicates over one symbol, hashable, so that equal sets are shared."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CharSet:
    """Characters in `ranges` (inclusive code points) or of a class in `classes` (`d` digit, `w` word, `s` space; a
    capital means its complement); all others where `negated`. With `fold`, either case of a character counts."""

    ranges: tuple[tuple[int, int], ...] = ()
    classes: frozenset[str] = frozenset()
    negated: bool = False
    fold: bool = False

    def __contains__(self, symbol: str) -> bool:
        cases = {symbol, *_single(symbol.lower()), *_single(symbol.upper())} if self.fold else (symbol,)
        return any(self._holds(case) for case in cases) is not self.negated

    def _holds(self, symbol: str) -> bool:
        code = ord(symbol)
        return any(low <= code <= high for low, high in self.ranges) or any(
            _in_class(symbol, name) for name in self.classes
        )


def _single(text: str) -> tuple[str, ...]:
    return (text,) if len(text) == 1 else ()


def _in_class(symbol: str, name: str) -> bool:
    return _TESTS[name.lower()](symbol) is name.islower()


def _is_word(symbol: str) -> bool:
    return symbol.isalnum() or symbol == "_"


_TESTS = {"d": str.isdecimal, "s": str.isspace, "w": _is_word}


def characters(text: str) -> CharSet:
    return CharSet(tuple((ord(c), ord(c)) for c in text))


ANY_BUT_NEWLINE = CharSet(ranges=((10, 10),), negated=True)
