"""Cut a text that is still being written into parts whose tokens no longer change, for guards that judge tokens.

A tokenizer splits a text into words first, and no token crosses the end of a word. So a word is stable once the next
one has begun. A cut is searched for after every character, so where it falls depends on the text alone, never on how it
came in pieces. A run of white space is cut only once it has ended, since line breaks join what is before them; a
character that NFC composes with the one before it belongs to the same word.

Not covered: words of more than `LONGEST` characters, and tokenizers that do not split into words or that look back:
their parts may be tokenised differently from the whole text. They are the same parts however the text came in pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unicodedata import category, combining, normalize

LONGEST = 64
"""Maximum characters of a part, and so of the text that waits for the end of a word."""
Words = Callable[[str], list[int]]
"""Maps a text to the offsets at which its words begin, the first at 0."""


class StableCutter:
    """Mutable, for one text."""

    def __init__(self, words: Words, lead: str = "") -> None:
        """Begin behind `lead`, a text of the caller's that goes on: what may still be a part of its last word is cut
        with the text behind it."""
        self._words = words
        self._rest = ""
        for _ in self.feed(lead[last_word(lead) :]):
            pass
        self.of_lead = len(self._rest)
        """Characters of the first part that are the lead's."""

    def feed(self, text: str) -> Iterator[str]:
        """Yield the parts that became stable."""
        for char in text:
            while self._rest and (end := self._end(char)):
                part, self._rest = self._rest[:end], self._rest[end:]
                yield part
            self._rest += char

    def close(self) -> Iterator[str]:
        """Yield the rest as the last part."""
        if self._rest:
            yield self._rest
            self._rest = ""

    def _end(self, char: str) -> int:
        """Return the end of the first part, given the next character; 0 = not known yet."""
        rest = self._rest
        if (char.isspace() and rest[-1].isspace()) or _composes(rest[-1], char):
            return self._longest(char)
        ends = [at for at in self._words(rest + char) if 0 < at <= len(rest)]
        return ends[0] if ends else self._longest(char)

    def _longest(self, char: str) -> int:
        """Return the length of all held text if it has the maximum length, else 0. Combining marks stay with their
        letter up to twice that."""
        size = len(self._rest)
        return size if size >= 2 * LONGEST or (size >= LONGEST and not _composes(self._rest[-1], char)) else 0


def last_word(text: str) -> int:
    """Return the offset of the last word of `text`, with the character before it, which tokenizers join to it; the end
    of `text` where it ends in no letter, mark or digit. At most `LONGEST` characters count as a word."""
    at, first = len(text), max(0, len(text) - LONGEST)
    while at > first and category(text[at - 1])[0] in "LMN":
        at -= 1
    return at if at == len(text) else max(0, at - 1)


def words_of(tokenizer: Any) -> Words:
    """Return the word splitter of a `transformers` tokenizer; one on white space if it has none."""
    backend: Any = getattr(tokenizer, "backend_tokenizer", None)
    splitter = getattr(backend, "pre_tokenizer", None)
    if splitter is None:
        return _by_space

    compose = backend.normalizer.normalize_str if getattr(backend, "normalizer", None) is not None else str

    def split(text: str) -> list[int]:
        composed = compose(text)
        begins = [begin for _, (begin, _) in splitter.pre_tokenize_str(composed)]
        return begins if composed == text else _in_text(text, composed, begins, compose)

    return split


def _in_text(text: str, composed: str, begins: Sequence[int], compose: Callable[[str], str]) -> list[int]:
    """Map the offsets `begins` in `composed` back to offsets in `text`; those without a counterpart are left out."""
    become = {compose(text[:at]): at for at in range(len(text) + 1)}  # the longest of each, with all its marks
    return [become[composed[:begin]] for begin in begins if composed[:begin] in become]


def _by_space(text: str) -> list[int]:
    """Return the offset at which each part begins. White space belongs to the word after it."""
    return [0, *(at for at in range(1, len(text)) if text[at].isspace() and not text[at - 1].isspace())]


def _composes(before: str, char: str) -> bool:
    """Return whether `char` combines with the character before it."""
    if char < "\u0300":
        return False
    return combining(char) != 0 or len(normalize("NFC", before + char)) < len(normalize("NFC", before)) + len(
        normalize("NFC", char)
    )
