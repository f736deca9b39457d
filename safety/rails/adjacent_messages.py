"""Find matches across adjacent messages: many chat templates, and other servers, join messages of one role into one
turn, with a line break between them.

Not covered: a match cut within a word, since no template joins words again; one spread over two roles.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import eq

from sluicegate.plugins import Request, Text
from sluicegate.safety.matching.automaton import Automaton, Match
from sluicegate.safety.matching.scanner import find_all

BORDER_CHARS = 256
"""Characters read on either side of a border between messages or documents."""
_SAME = {"developer": "system"}
Piece = tuple[Text, int, str]
"""(text, offset in it, the piece of it from there on)."""


def matches_across(automaton: Automaton, request: Request, texts: Iterable[Text]) -> list[tuple[Text, Match]]:
    """Return, for each match that spans several adjacent texts, the part in each. `texts`: the texts of `request` to
    read."""
    found: list[tuple[Text, Match]] = []
    roles = [_SAME.get(message.role, message.role) for message in request.messages]
    if not any(map(eq, roles, roles[1:])):
        return found
    for run in _runs(request, texts):
        for match in find_all(automaton, "\n".join([piece for _, _, piece in run])):
            shares = list(_shares(run, match))
            if len(shares) > 1:
                found += shares
    return found


def spanning(automaton: Automaton, pieces: Sequence[str]) -> list[tuple[int, int, Match]]:
    """Return (first piece, last piece, match) of the matches that span several of `pieces`, joined by line breaks."""
    found: list[tuple[int, int, Match]] = []
    for first, run in _windows(pieces):
        ends = list(accumulate(len(piece) + 1 for piece in run))
        for match in find_all(automaton, "\n".join(run)):
            begin, end = bisect_right(ends, match.start), bisect_right(ends, match.end - 1)
            if begin < end:
                found.append((first + begin, first + end, match))
    return found


def _windows(pieces: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield (index of the first piece, pieces) of each run; a long piece ends one run and begins another."""
    first, run = 0, list[str]()
    for number, piece in enumerate(pieces):
        if len(piece) <= 2 * BORDER_CHARS:
            run.append(piece)
            continue
        yield first, [*run, piece[:BORDER_CHARS]]
        first, run = number, [piece[-BORDER_CHARS:]]
    yield first, run


def _shares(run: Sequence[Piece], match: Match) -> Iterator[tuple[Text, Match]]:
    at = 0
    for text, offset, piece in run:
        start, end = max(match.start - at, 0), min(match.end - at, len(piece))
        if start < end:
            yield text, Match(offset + start, offset + end, match.label)
        at += len(piece) + 1


def _runs(request: Request, texts: Iterable[Text]) -> Iterator[list[Piece]]:
    """Yield runs of adjacent messages of one role; a long message ends one run and begins another."""
    run: list[Piece] = []
    last: Text | None = None
    for text in texts:
        if text.role is None or text.path[-1] != "content":
            continue
        if last is None or not _is_one_turn(request, int(last.path[1]), int(text.path[1])):
            yield from [run] if len(run) > 1 else []
            run = []
        said, last = text.text, text
        if len(said) <= 2 * BORDER_CHARS:
            run.append((text, 0, said))
            continue
        if run:
            yield [*run, (text, 0, said[:BORDER_CHARS])]
        run = [(text, len(said) - BORDER_CHARS, said[-BORDER_CHARS:])]
    if len(run) > 1:
        yield run


def _is_one_turn(request: Request, first: int, last: int) -> bool:
    """Return whether messages `first` to `last` all have the same role."""
    return len({_SAME.get(message.role, message.role) for message in request.messages[first : last + 1]}) == 1
