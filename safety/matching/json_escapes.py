"""Find matches in a text both as it is spelled and with JSON escapes decoded, so that `\\u0070` is also read as `p`.

Not covered: other spellings of characters (percent signs, HTML, base64).
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from sluicegate.safety.matching.automaton import Automaton, Match
from sluicegate.safety.matching.scanner import find_all

LAYERS = 3
"""Levels of JSON inside a JSON string that are decoded."""
_ESCAPE = re.compile(r'\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|["\\/bfnrt])')
_SHORT = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def find_spelled(automaton: Automaton, text: str, layers: int = LAYERS) -> list[Match]:
    """Find the matches of `find_all`, and those in the text with JSON escapes decoded. No match begins or ends inside
    an escape, so that JSON stays valid where it is replaced."""
    found = find_all(automaton, text)
    if not layers or "\\" not in text or not (layer := Unescaped(text)).changed:
        return found
    said = [layer.spelled(match) for match in find_spelled(automaton, layer.text, layers - 1)]
    return joined([*_whole(found, layer, text), *said]) if found or said else []


class Unescaped:
    """`text` with one layer of escapes decoded. `spelled` maps offsets back to the original; `changed`: it had any
    escape."""

    def __init__(self, text: str) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []
        self._at: list[int] = []
        """For each escape: its start and end in the original text, and the offset of its character in `text`."""
        self.text = "".join(self._parts(text))
        self.changed = bool(self._at)

    def _parts(self, text: str) -> Iterator[str]:
        done = length = 0
        for escape in _ESCAPE.finditer(text):
            begin, end = escape.span()
            yield text[done:begin]
            length += begin - done
            self._begins.append(begin)
            self._ends.append(end)
            self._at.append(length)
            yield _character(escape[0])
            done, length = end, length + 1
        yield text[done:]

    def spelled(self, match: Match) -> Match:
        return Match(self._spelled(match.start), self._spelled(match.end), match.label)

    def _spelled(self, place: int) -> int:
        before = bisect_left(self._at, place)
        return place if not before else self._ends[before - 1] + place - self._at[before - 1] - 1

    def around(self, match: Match) -> Match:
        """Return `match` in the original text, extended to whole escapes."""
        return Match(self._edge(match.start, self._begins), self._edge(match.end, self._ends), match.label)

    def _edge(self, place: int, edges: list[int]) -> int:
        escape = bisect_right(self._begins, place) - 1
        return edges[escape] if escape >= 0 and self._begins[escape] < place < self._ends[escape] else place


def _character(escape: str) -> str:
    if escape[1] != "u":
        return _SHORT[escape[1]]
    high = int(escape[2:6], 16)
    return chr(high) if len(escape) == 6 else chr(0x10000 + ((high - 0xD800) << 10) + int(escape[8:], 16) - 0xDC00)


def _whole(found: list[Match], layer: Unescaped, text: str) -> list[Match]:
    """Drop matches that mistook part of an escape for letters, if the text is JSON; else extend them."""
    wider = [layer.around(match) for match in found]
    if wider != found and _is_json(text):
        return [match for match, wide in zip(found, wider, strict=True) if match == wide]
    return wider


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def joined(matches: list[Match]) -> list[Match]:
    """Return the matches in order, overlapping ones as one, with the label of the first."""
    found: list[Match] = []
    for match in sorted(matches, key=lambda one: (one.start, -one.end)):
        if found and match.start < found[-1].end:
            last = found[-1]
            found[-1] = Match(last.start, max(last.end, match.end), last.label)
        else:
            found.append(match)
    return found
