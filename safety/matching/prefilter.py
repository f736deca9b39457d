"""Where in a whole text a match could begin: a search by RE2 that may point at too much, never at too little.

A text at rest is mostly free of anything; RE2 passes over that some ten times faster than the automaton can, which
then reads only from the places found. RE2 sees the folded text squeezed into bytes: letters outside ASCII as one byte,
other characters as another.

Not covered: streams (there is nothing to skip in four characters) and long lists of phrases (one of them begins like
nearly any word).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import re2

from sluicegate.safety.matching.charset import CharSet
from sluicegate.safety.matching.regex import Alternatives, Cat, Node, RegexRepeat
from sluicegate.safety.matching.symbols import narrow

_WORD, _OTHER, _UNEVEN = "\xaa", "\x81", "\x00"
_SAMPLES = {_WORD: "\u0436", _OTHER: "\u2603"}  # a letter and a sign, for asking what a set holds
_SQUEEZABLE = re.compile(r"[^\n\x20-\x7e]+")  # what does not stand for itself
_MAX_MEMORY = 64 << 20
_WHOLE = (0,)


class Prefilter:
    """Immutable; made once per automaton."""

    def __init__(self, shapes: Iterable[Node], fold: Callable[[str], str]) -> None:
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = _MAX_MEMORY
        options.log_errors = False
        options.never_capture = True
        self._pattern = re2.compile("|".join(f"(?:{written(shape)})" for shape in shapes).encode("latin-1"), options)
        self._table = _Squeezed(fold)
        self._fold = fold
        self._ascii = "".join([self._table[code] for code in range(128)]).encode("latin-1").ljust(256, b"\0")

    def candidates(self, text: str) -> Candidates:
        if text.isascii():
            data = text.encode("ascii").translate(self._ascii)
            if b"\0" not in data:
                return Candidates(self._pattern, data, _WHOLE, _WHOLE)
        squeezed = self._squeezed(text)
        uneven = [found.start() for found in re.finditer(_UNEVEN, squeezed)]
        if not uneven:
            return Candidates(self._pattern, squeezed.encode("latin-1"), _WHOLE, _WHOLE)
        parts, raw, places, last = [], [0], [0], 0
        length = 0
        for at in uneven:
            symbols = "".join(map(_squeeze, self._fold(text[at])))
            parts += [squeezed[last:at], symbols]
            length += at - last + len(symbols)
            last = at + 1
            raw.append(last)
            places.append(length)
        parts.append(squeezed[last:])
        return Candidates(self._pattern, "".join(parts).encode("latin-1"), raw, places)

    def _squeezed(self, text: str) -> str:
        if self._fold is narrow:  # most characters stand for themselves
            return _SQUEEZABLE.sub(lambda run: run[0].translate(self._table), text)
        return text.translate(self._table)


class Candidates:
    """`raw[i]` and `places[i]` are the same spot in the text and in the bytes; in between both count alike."""

    def __init__(self, pattern: re2._Regexp[bytes], data: bytes, raw: Sequence[int], places: Sequence[int]) -> None:
        self._pattern, self._data, self._raw, self._places = pattern, data, raw, places

    def next(self, at: int) -> tuple[int, int] | None:
        """Return start and end, in the text, of the first place from `at` on where a match may begin."""
        found = self._pattern.search(self._data, self._to_bytes(at))
        if found is None:
            return None
        start, end = found.span()
        return max(at, self._to_text(start)), self._to_text(end)

    def _to_bytes(self, at: int) -> int:
        i = bisect_right(self._raw, at) - 1
        return self._places[i] + at - self._raw[i]

    def _to_text(self, place: int) -> int:
        """Return the offset in the text of a place. Of several characters that share a place it is the first; within
        the symbols of one character its own offset."""
        i = bisect_right(self._places, place) - 1
        while i > 0 and self._places[i] == place:
            i -= 1
        at = self._raw[i] + place - self._places[i]
        return min(at, self._raw[i + 1] - 1) if i + 1 < len(self._raw) else at


class _Squeezed(dict[int, str]):
    """For `str.translate`: every character that folds to one symbol as one byte, others as `_UNEVEN`."""

    def __init__(self, fold: Callable[[str], str]) -> None:
        super().__init__()
        self._fold = fold

    def __missing__(self, code: int) -> str:
        symbols = self._fold(chr(code))
        found = self[code] = _squeeze(symbols) if len(symbols) == 1 else _UNEVEN
        return found


def _squeeze(symbol: str) -> str:
    if "\0" < symbol < "\x80":
        return symbol
    return _WORD if symbol.isalnum() else _OTHER


def written(node: Node) -> str:
    """Write `node` in RE2's notation over squeezed bytes."""
    if isinstance(node, CharSet):
        return _class(node)
    if isinstance(node, RegexRepeat):
        return f"(?:{written(node.part)}){{{node.low},{'' if node.high is None else node.high}}}"
    joint = "|" if isinstance(node, Alternatives) else ""
    parts = joint.join(map(written, node.parts))
    return f"(?:{parts})" if isinstance(node, Alternatives | Cat) else parts


@lru_cache(maxsize=1024)
def _class(chars: CharSet) -> str:
    wide = chars.negated or any(high > 0x7F for _, high in chars.ranges)
    held = [chr(code) for code in range(1, 0x80) if chr(code) in chars]
    held += [byte for byte, sample in _SAMPLES.items() if wide or sample in chars]
    return "[" + "".join(f"\\x{ord(char):02x}" for char in held) + "]"
