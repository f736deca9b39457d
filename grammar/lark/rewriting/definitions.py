"""Find the definitions of a grammar among its pieces: names, attributes in brackets, and bodies."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluicegate.grammar.lark.rewriting.pieces import GrammarPiece

BLANK = frozenset({"skip", "line"})
_ENDS = frozenset({"ignore", "import", "declare", "override", "extend"})
_HEAD = re.compile(
    r"""[ \t]*(\[(?:[^\]"/\\]|"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])*/)*\])?"""
    r"""[ \t]*(?:\.-?\d+)?[ \t]*(?:\{[^}\n]*\})?[ \t]*:(?!:)"""
)


@dataclass(frozen=True, slots=True)
class Definition:
    """`first`: the piece of its name; `body` to `last`: pieces of its body; `attributes`: where its brackets begin and
    end in the text, -1 without."""

    name: str
    first: int
    body: int
    last: int
    attributes: tuple[int, int]

    @property
    def is_terminal(self) -> bool:
        return self.name.lstrip("_").isupper()


def definitions(pieces: Sequence[GrammarPiece], text: str) -> list[Definition]:
    starts = list(_starts(pieces, text))
    ends = [*(first for _, first, _, _ in starts[1:]), len(pieces)]
    found = []
    for (name, first, body, brackets), end in zip(starts, ends, strict=False):  # of no definitions, none ends
        last = next((i for i in range(body, end) if _ends(pieces[i])), end)
        found.append(Definition(name, first, body, last, brackets))
    return found


def solid(pieces: Sequence[GrammarPiece]) -> list[GrammarPiece]:
    """Leave out blanks and comments."""
    return [piece for piece in pieces if piece.kind not in BLANK]


def _ends(piece: GrammarPiece) -> bool:
    return piece.kind == "llguidance" or (piece.kind == "directive" and piece.text[1:] in _ENDS)


def _starts(pieces: Sequence[GrammarPiece], text: str) -> Iterator[tuple[str, int, int, tuple[int, int]]]:
    offsets = [piece.at for piece in pieces]
    fresh = True
    for at, piece in enumerate(pieces):
        head = _HEAD.match(text, piece.end) if fresh and piece.kind == "name" else None
        if head is not None:
            yield piece.text, at, bisect_left(offsets, head.end()), head.span(1)
        statement = piece.kind == "directive" and piece.text[1:] in ("override", "extend")
        fresh = piece.kind == "line" or statement or (fresh and (piece.kind == "skip" or piece.text in "?!"))
