"""Context documents: which fit, and in which order a model reads them best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from plugins import Document

Order = Literal["edges", "score", "given"]
Count = Callable[[str], int]
"""Tokens of a text."""
CUT_NOTE = " [...]"
LEAST_TOKENS = 16
"""Less of a document than this is not worth showing."""


def fitting(documents: Sequence[Document], budget: int, count: Count) -> tuple[list[Document], list[Document]]:
    """(what fits, what does not), best first; the first that does not fit whole is cut to what is left."""
    shown: list[Document] = []
    ranked = sorted(documents, key=lambda d: -d.score)
    for place, document in enumerate(ranked):
        size = count(document.text)
        if size <= budget:
            shown.append(document)
            budget -= size
            continue
        if budget >= LEAST_TOKENS:
            shown.append(Document(_cut(document, budget, count), document.source, document.score))
        return shown, ranked[place + 1 :] if budget >= LEAST_TOKENS else ranked[place:]
    return shown, []


def ordered(documents: Sequence[Document], order: Order, given: Sequence[Document]) -> list[Document]:
    """`edges`: the best first and last, the worst in the middle, where models overlook it (Liu et al., "Lost in the
    middle", 2023)."""
    if order == "given":
        places = {document.text: place for place, document in enumerate(given)}
        return sorted(documents, key=lambda d: places.get(d.text, len(places)))
    ranked = sorted(documents, key=lambda d: -d.score)
    return ranked if order == "score" else ranked[::2] + ranked[1::2][::-1]


def text_of(document: Document) -> str:
    return f"[{document.source}]\n{document.text}" if document.source else document.text


def _cut(document: Document, budget: int, count: Count) -> str:
    """The longest beginning, at a blank, whose tokens fit: by halving."""
    low, high = 0, len(document.text)
    while low < high:
        middle = (low + high + 1) // 2
        piece = document.text[:middle] + CUT_NOTE
        low, high = (middle, high) if count(piece) <= budget else (low, middle - 1)
    words = document.text[:low].rsplit(None, 1)
    return (words[0] if words else "") + CUT_NOTE
