"""A document cut into the lines and sentences that could be an instruction, each with how it sits among the others.

A planted instruction looks like a stranger: prose in a table, a request in a log, words that no other line uses. What
is said here of a segment is a handful of such facts, all between 0 and 1.

Not covered: an instruction spread over several lines, and one that fits its document perfectly.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

MAX_SEGMENTS = 4_000
"""Of one document; what comes after is cut into longer pieces, so that nothing goes unread."""

CONTEXT = (
    "alone in its shape", "share of its shape", "known words", "question", "first", "last", "has a link",
    "short", "middling", "long", "quoted", "table row", "code", "heading",
)  # fmt: skip
"""Names of the facts, in order."""

_SENTENCE = re.compile(r"(?<=[.!?。！？।])[\"'”»)]?\s+(?=\S)|<!--|-->|(?<=[。！？।])")
_WORD = re.compile(r"[^\W\d_]{4,}")
_CODE = re.compile(r"[;{}=<>]|\w\(|^\s*(?:#|//|import |from |def |class |at |File |>>>|\$ )|^\s{4,}\S|\b\w+\.\w+\(")


@dataclass(frozen=True, slots=True)
class TextSegment:
    """text[start:end] of the document; `context` follows `CONTEXT`."""

    start: int
    end: int
    context: tuple[float, ...]


def segments(text: str) -> list[TextSegment]:
    """Return the segments in order, without empty ones. `text` is folded."""
    spans = [span for line in _lines(text) for span in _sentences(text, *line)]
    pieces = [text[start:end] for start, end in spans]
    shapes = [_shape(piece) for piece in pieces]
    words = [frozenset(_WORD.findall(piece)) for piece in pieces]
    shape_counts, word_counts = Counter(shapes), Counter(word for found in words for word in found)
    return [
        TextSegment(*span, _context(i, len(spans), pieces[i], shapes[i], shape_counts, words[i], word_counts))
        for i, span in enumerate(spans)
    ]


def _lines(text: str) -> list[tuple[int, int]]:
    ends = [i for i, char in enumerate(text) if char == "\n"][: MAX_SEGMENTS - 1]
    starts = [0, *(end + 1 for end in ends)]
    return list(zip(starts, [*ends, len(text)], strict=True))


def _sentences(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the sentences of one line; a row of a table stays whole."""
    line = text[start:end]
    cuts = [] if line.count("|") >= 2 else [(m.start(), m.end()) for m in _SENTENCE.finditer(line)]
    begins = [0, *(b for _, b in cuts)]
    ends = [*(a for a, _ in cuts), len(line)]
    return [(start + a, start + b) for a, b in zip(begins, ends, strict=True) if line[a:b].strip()]


def _shape(piece: str) -> str:
    if piece.count("|") >= 2:
        return "table row"
    if _CODE.search(piece):
        return "code"
    return "prose" if piece.count(" ") >= 3 or not piece.isascii() else "heading"


def _context(
    i: int,
    n: int,
    piece: str,
    shape: str,
    shape_counts: Counter[str],
    words: frozenset[str],
    word_counts: Counter[str],
) -> tuple[float, ...]:
    others = n - 1
    alike = (shape_counts[shape] - 1) / others if others else 0.0
    known = sum(word_counts[word] > 1 for word in words) / len(words) if words else 0.5
    length = len(piece)
    stripped = piece.strip()
    facts = (
        others >= 3 and alike < 0.15,
        alike,
        known,
        stripped.endswith(("?", "？", "؟")),
        i == 0,
        i == others,
        "http" in piece or "www." in piece,
        length < 25,
        25 <= length < 90,
        length >= 160,
        stripped[:1] in "\"'“«‘>" or stripped[-1:] in "\"'”»’",
        shape == "table row",
        shape == "code",
        shape == "heading",
    )
    return tuple(float(fact) for fact in facts)
