"""Find where a sentence, a line or a string of a JSON text ends: the places at which text is judged and delivered."""

from __future__ import annotations

import re

CLOSERS = "\"'”’»)\\]*」』"
"""Characters that may stand between the end of a sentence and the space behind it, as in a character class."""
SENTENCE_END = re.compile(
    rf"[.!?…][{CLOSERS}]{{0,3}}(?=\s)"  # a sentence
    rf"|[。！？।][{CLOSERS}]{{0,3}}(?=[^{CLOSERS}])"  # one of a script without spaces
    r"|(?=\n)"
    r'|"(?=[,}\]:])'  # a string of a JSON text
)
"""A match ends where the sentence does; it is certain with the character behind it."""
WIDEST_END = 4
"""Maximum characters of a match of `SENTENCE_END`."""
_CONCERNED = re.compile(rf"[.!?…。！？।\n{CLOSERS}]")


class SentenceWatch:
    """Says of each next part of a text whether an end of a sentence became certain with it. Mutable, for one text."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = ""  # what may become an end with the next part; "" for most parts

    def feed(self, text: str) -> bool:
        if not self._tail and _CONCERNED.search(text) is None:
            return False
        seen, found = self._tail + text, -1
        for match in SENTENCE_END.finditer(seen):
            if match.end() < len(seen):
                found = match.end()
        rest = seen[found + 1 :][-WIDEST_END:]
        self._tail = rest if _CONCERNED.search(rest) is not None else ""
        return found >= 0
