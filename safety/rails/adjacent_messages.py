"""Matches across messages that stand next to each other: many templates, and other servers, make one turn of several
messages of one role, with a line break between them.

Not covered: what is cut within a word, since no template puts words together again; what is spread over two roles.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import eq

from sluicegate.plugins import Request, Text
from sluicegate.safety.matching.automaton import Automaton, Match
from sluicegate.safety.matching.scanner import find_all

REACH = 256
"""Characters of a message, or of a document, on either side of a border that are read."""
_SAME = {"developer": "system"}
Piece = tuple[Text, int, str]
"""Of a text: from which offset on, and what stands there."""


def across(automaton: Automaton, request: Request, texts: Iterable[Text]) -> list[tuple[Text, Match]]:
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
    """Return the matches that span several of `pieces`, which stand below each other, with the first and the last piece
    of each."""
    found: list[tuple[int, int, Match]] = []
    for first, run in _windows(pieces):
        ends = list(accumulate(len(piece) + 1 for piece in run))
        for match in find_all(automaton, "\n".join(run)):
            begin, end = bisect_right(ends, match.start), bisect_right(ends, match.end - 1)
            if begin < end:
                found.append((first + begin, first + end, match))
    return found


def _windows(pieces: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield runs of pieces with the number of the first; one that is long ends a run and begins another."""
    first, run = 0, list[str]()
    for number, piece in enumerate(pieces):
        if len(piece) <= 2 * REACH:
            run.append(piece)
            continue
        yield first, [*run, piece[:REACH]]
        first, run = number, [piece[-REACH:]]
    yield first, run


def _shares(run: Sequence[Piece], match: Match) -> Iterator[tuple[Text, Match]]:
    at = 0
    for text, offset, piece in run:
        start, end = max(match.start - at, 0), min(match.end - at, len(piece))
        if start < end:
            yield text, Match(offset + start, offset + end, match.label)
        at += len(piece) + 1


def _runs(request: Request, texts: Iterable[Text]) -> Iterator[list[Piece]]:
    """Yield runs of messages of one role; one that is long ends a run and begins another."""
    run: list[Piece] = []
    last: Text | None = None
    for text in texts:
        if text.role is None or text.path[-1] != "content":
            continue
        if last is None or not _is_one_turn(request, int(last.path[1]), int(text.path[1])):
            yield from [run] if len(run) > 1 else []
            run = []
        said, last = text.text, text
        if len(said) <= 2 * REACH:
            run.append((text, 0, said))
            continue
        if run:
            yield [*run, (text, 0, said[:REACH])]
        run = [(text, len(said) - REACH, said[-REACH:])]
    if len(run) > 1:
        yield run


def _is_one_turn(request: Request, first: int, last: int) -> bool:
    """Return whether all messages between the two have the same role; those without text are ignored."""
    return len({_SAME.get(message.role, message.role) for message in request.messages[first : last + 1]}) == 1
