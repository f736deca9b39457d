"""Find where in a whole text a match could begin, by an RE2 search with false positives but no false negatives.

Most of a text matches nothing; RE2 skips it about ten times faster than the automaton, which then reads only from the
candidates. RE2 reads the folded text mapped to bytes: all letters outside ASCII are one byte, all other characters
another.

Not covered: streams (four characters leave nothing to skip) and long lists of phrases (nearly any word begins one).
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import re2

from sluicegate.safety.matching.charset import CharSet
from sluicegate.safety.matching.regex import Alternatives, Concat, Node, RegexRepeat
from sluicegate.safety.matching.symbols import coded, narrow

_WORD, _OTHER, _UNEVEN = "\xaa", "\x81", "\x00"
_SAMPLES = {_WORD: "\u0436", _OTHER: "\u2603"}  # one letter and one sign, to test whether a set contains such
_SQUEEZABLE = re.compile(r"[^\n\x20-\x7e]+")  # characters that are not mapped to themselves
_MAX_MEMORY = 64 << 20
_WHOLE = (0,)


class Prefilter:
    """A compiled search, built once per automaton. Immutable."""

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
        if self._fold in (narrow, coded):  # most characters stand for themselves
            return _SQUEEZABLE.sub(lambda run: run[0].translate(self._table), text)
        return text.translate(self._table)


class Candidates:
    """The candidates in one text. Offset `raw[i]` of the text is offset `places[i]` of the bytes; between two such
    pairs both offsets advance together."""

    def __init__(self, pattern: re2._Regexp[bytes], data: bytes, raw: Sequence[int], places: Sequence[int]) -> None:
        self._pattern, self._data, self._raw, self._places = pattern, data, raw, places

    def next(self, at: int) -> tuple[int, int] | None:
        """Return (start, end), in the text, of the first candidate from offset `at` on."""
        found = self._pattern.search(self._data, self._to_bytes(at))
        if found is None:
            return None
        start, end = found.span()
        return max(at, self._to_text(start)), self._to_text(end)

    def _to_bytes(self, at: int) -> int:
        i = bisect_right(self._raw, at) - 1
        return self._places[i] + at - self._raw[i]

    def _to_text(self, place: int) -> int:
        """Return the offset in the text of a byte offset: of the first of several characters that share it; within the
        symbols of one character, of that character."""
        i = bisect_right(self._places, place) - 1
        while i > 0 and self._places[i] == place:
            i -= 1
        at = self._raw[i] + place - self._places[i]
        return min(at, self._raw[i + 1] - 1) if i + 1 < len(self._raw) else at


class _Squeezed(dict[int, str]):
    """A table for `str.translate`: characters that fold to one symbol become one byte, others `_UNEVEN`."""

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
    return f"(?:{parts})" if isinstance(node, Alternatives | Concat) else parts


@lru_cache(maxsize=1024)
def _class(chars: CharSet) -> str:
    wide = chars.negated or any(high > 0x7F for _, high in chars.ranges)
    held = [chr(code) for code in range(1, 0x80) if chr(code) in chars]
    held += [byte for byte, sample in _SAMPLES.items() if wide or sample in chars]
    return "[" + "".join(f"\\x{ord(char):02x}" for char in held) + "]"
