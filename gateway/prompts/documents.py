"""Choose the context documents that fit, and the order in which a model reads them best."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal

from sluicegate.plugins import Document

Order = Literal["edges", "score", "given"]
Count = Callable[[str], int]
"""Returns the number of tokens of a text."""
CUT_NOTE = " [...]"
LEAST_TOKENS = 16
"""A shorter rest of a document is not worth showing."""
LONGEST_SOURCE = 500
"""Most characters of a document's source."""
LINES = frozenset({"Cc", "Zl", "Zp"})
"""Unicode categories of characters that can begin a new line, or hide what precedes them."""
WINDOW_CHARS = 32_768
"""Longer texts are counted in parts of this size, so that little is tokenised of one that does not fit."""


def fitting(documents: Sequence[Document], budget: int, count: Count) -> tuple[list[Document], list[Document]]:
    """Return (what fits, what does not), best first; the first that does not fit whole is cut to what is left."""
    shown: list[Document] = []
    ranked = sorted(documents, key=lambda d: -d.score)
    for place, document in enumerate(ranked):
        size = tokens_up_to(document.text, budget, count)
        if size <= budget:
            shown.append(document)
            budget -= size
            continue
        if budget >= LEAST_TOKENS:
            shown.append(Document(_cut(document, budget, count), document.source, document.score))
        return shown, ranked[place + 1 :] if budget >= LEAST_TOKENS else ranked[place:]
    return shown, []


def ordered(documents: Sequence[Document], order: Order, given: Sequence[Document]) -> list[Document]:
    """Return the documents in `order`. `edges`: the best first and last, the worst in the middle, where models overlook
    it (Liu et al., "Lost in the middle", 2023)."""
    if order == "given":
        places = {document.text: place for place, document in enumerate(given)}
        return sorted(documents, key=lambda d: places.get(d.text, len(places)))
    ranked = sorted(documents, key=lambda d: -d.score)
    return ranked if order == "score" else ranked[::2] + ranked[1::2][::-1]


def text_of(document: Document) -> str:
    source = named(document.source)
    return f"[{source}]\n{document.text}" if source else document.text


def named(source: str) -> str:
    """Return `source` on one line and at most `LONGEST_SOURCE` long: it stands above the document, where a line of its
    own would be read as the gateway's."""
    flat = "".join(" " if unicodedata.category(char) in LINES else char for char in source[: 2 * LONGEST_SOURCE])
    return " ".join(flat.split())[:LONGEST_SOURCE]


def tokens_up_to(text: str, most: int, count: Count) -> int:
    """Count the tokens of `text`, roughly where it is long; stop once there are more than `most`."""
    counted = 0
    for at in range(0, max(1, len(text)), WINDOW_CHARS):
        counted += count(text[at : at + WINDOW_CHARS])
        if counted > most:
            break
    return counted


def _cut(document: Document, budget: int, count: Count) -> str:
    """Return the longest prefix, up to a blank, whose tokens fit, by bisection within the last window."""
    text, start = document.text, 0
    while len(text) - start > WINDOW_CHARS and (used := count(text[start : start + WINDOW_CHARS])) <= budget:
        start, budget = start + WINDOW_CHARS, budget - used
    low, high = start, min(len(text), start + WINDOW_CHARS)
    while low < high:
        middle = (low + high + 1) // 2
        piece = text[start:middle] + CUT_NOTE
        low, high = (middle, high) if count(piece) <= budget else (low, middle - 1)
    words = text[:low].rsplit(None, 1)
    return (words[0] if words else "") + CUT_NOTE
