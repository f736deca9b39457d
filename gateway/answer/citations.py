"""Find which spans of an answer stand in which document, by their words.

A citation is a run of words that answer and document have in common, as long as it can be, of `SHORTEST` words or more;
or a whole string of a structured answer, however short. `verbatim`: the same characters; `words`: the same words in the
same order, in another case, with other spaces or punctuation between. Runs are found by n-grams of `SHORTEST` words and
verified word by word.

Not covered: paraphrases, numbers that were worked out, and whether the document says what the answer makes of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

SHORTEST = 5
"""Fewest words of a citation; unrelated texts share shorter ones."""
LEAST_CHARS = 3
"""Fewest characters of a whole value."""
PLACES = 16
"""Most places of one n-gram over all documents; further ones are not tried, so that a document of one repeated word
costs no more."""
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Citation:
    """[start, end) are characters of the answer's text (of the string at `pointer` of a structured answer),
    `document_start` and `document_end` those of the document's."""

    pointer: str
    start: int
    end: int
    document: int
    document_start: int
    document_end: int
    kind: Literal["verbatim", "words"]


@dataclass(frozen=True, slots=True)
class _Words:
    text: str
    words: tuple[str, ...]
    spans: tuple[tuple[int, int], ...]


def citations_of(answer: str, documents: Sequence[str], *, structured: bool) -> list[Citation]:
    """Return the citations of an answer, in its order; they do not overlap. `structured`: it is JSON."""
    index = _Index(documents)
    if not structured:
        return list(index.cited("", answer, whole=False))
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return []
    return [found for pointer, text in _strings(value, "") for found in index.cited(pointer, text, whole=True)]


class _Index:
    """The words of documents, and where each n-gram and each word begins."""

    def __init__(self, documents: Sequence[str]) -> None:
        self._documents = [_words_of(text) for text in documents]
        self._places: dict[tuple[str, ...], list[tuple[int, int]]] = {}
        for number, document in enumerate(self._documents):
            for at in range(len(document.words) - SHORTEST + 1):
                places = self._places.setdefault(document.words[at : at + SHORTEST], [])
                if len(places) < PLACES:
                    places.append((number, at))

    def cited(self, pointer: str, text: str, *, whole: bool) -> Iterator[Citation]:
        """Yield the longest runs from the left. `whole`: a text that is a run altogether may be short."""
        said = _words_of(text)
        if whole and len(said.words) < SHORTEST:
            found = self._verbatim(pointer, text)
            if found is not None:
                yield found
            return
        at = 0
        while at + SHORTEST <= len(said.words):
            length, number, place = self._longest(said, at)
            if not length:
                at += 1
                continue
            yield self._citation(pointer, said, at, length, number, place)
            at += length

    def _longest(self, said: _Words, at: int) -> tuple[int, int, int]:
        """Return (words, document, its place) of the longest run from `at`; 0 words = none."""
        best = (0, 0, 0)
        for number, place in self._places.get(said.words[at : at + SHORTEST], ()):
            words, length = self._documents[number].words, SHORTEST
            while (
                at + length < len(said.words)
                and place + length < len(words)
                and said.words[at + length] == words[place + length]
            ):
                length += 1
            if length > best[0]:
                best = (length, number, place)
        return best

    def _citation(self, pointer: str, said: _Words, at: int, length: int, number: int, place: int) -> Citation:
        document = self._documents[number]
        start, end = said.spans[at][0], said.spans[at + length - 1][1]
        document_start, document_end = document.spans[place][0], document.spans[place + length - 1][1]
        same = said.text[start:end] == document.text[document_start:document_end]
        return Citation(pointer, start, end, number, document_start, document_end, "verbatim" if same else "words")

    def _verbatim(self, pointer: str, text: str) -> Citation | None:
        """Find a whole value of a few words in the documents, between borders of words."""
        if len(text) < LEAST_CHARS:
            return None
        for number, document in enumerate(self._documents):
            at = document.text.find(text)
            for _ in range(PLACES):
                if at < 0:
                    break
                if _stands_alone(document.text, at, at + len(text)):
                    return Citation(pointer, 0, len(text), number, at, at + len(text), "verbatim")
                at = document.text.find(text, at + 1)
        return None


def _stands_alone(text: str, start: int, end: int) -> bool:
    before, after = text[start - 1 : start], text[end : end + 1]
    return not (before.isalnum() and text[start].isalnum()) and not (after.isalnum() and text[end - 1].isalnum())


def _words_of(text: str) -> _Words:
    found = [(match.group().casefold(), match.span()) for match in _WORD.finditer(text)]
    return _Words(text, tuple(word for word, _ in found), tuple(span for _, span in found))


def _strings(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    """Yield (JSON Pointer, text) of every string value."""
    waiting: list[tuple[str, Any]] = [(pointer, value)]
    while waiting:
        here, one = waiting.pop()
        if isinstance(one, str):
            yield here, one
        elif isinstance(one, Mapping):
            below = [(f"{here}/{name.replace('~', '~0').replace('/', '~1')}", part) for name, part in one.items()]
            waiting.extend(reversed(below))
        elif isinstance(one, list):
            waiting.extend(reversed([(f"{here}/{i}", part) for i, part in enumerate(one)]))
