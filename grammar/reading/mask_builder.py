"""Collecting the tokens of a mask: those that are sure, and those that hang on guards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from sluicegate.grammar.vocabulary.trie import I32

if TYPE_CHECKING:
    from sluicegate.grammar.reading.lookahead import Lookahead
    from sluicegate.grammar.reading.tape import Tape
    from sluicegate.grammar.vocabulary.boundary import BoundaryTokens
    from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_NONE = np.empty(0, np.int32)


class Guard(Protocol):
    """A condition that needs the text: asked when a value ends, before what follows is allowed."""

    def allows(self, tape: Tape, end: int) -> bool:
        """`end` = offset just after the value that ends."""

    def refused(self, tape: Tape) -> frozenset[str] | None:
        """What the open string must not go on to spell before it is closed; where none is open, what the next string
        must not be. None = ask for each token."""


class MaskBuilder:
    """Collects the tokens of a mask: `sure` ones, and those that hang on guards."""

    __slots__ = ("direct", "doubtful", "guards", "rows", "sure", "vocabulary")

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.rows: list[I32] = []
        self.sure: list[I32] = []
        self.doubtful: dict[tuple[tuple[Guard, ...], bool], list[I32]] = {}
        """By guards, and whether these are asked about the open string, or about the next one if none is open."""
        self.guards: tuple[Guard, ...] = ()
        self.direct = False

    def add(self, ids: I32 | None) -> None:
        if ids is not None and ids.size:
            if self.guards:
                self.doubtful.setdefault((self.guards, self.direct), []).append(ids)
            else:
                self.sure.append(ids)

    def add_boundary(self, lookahead: Lookahead, ways: BoundaryTokens, in_string: bool) -> None:
        """Those tokens of `ways` that lead where `lookahead` says."""
        self.add(ways.taken(lookahead.read))
        outer = self.guards, self.direct
        for guards, direct, read, _ in lookahead.doubtful:
            self.guards = (*outer[0], *guards)
            self.direct = direct and not in_string
            self.add(ways.taken(read))
        self.guards, self.direct = outer


def join(parts: list[I32]) -> I32:
    """All of `parts` in one array."""
    if not parts:
        return _NONE
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
