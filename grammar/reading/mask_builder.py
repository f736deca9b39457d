"""Collect the tokens of a mask: those that are sure, and those that depend on guards."""

from __future__ import annotations

from typing import Protocol

from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary.boundary import BoundaryTokens
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary


class LearnedTables(Protocol):
    """A parser of rules, or a lexeme, that keeps what it has worked out."""

    @property
    def learned_bytes(self) -> int: ...


class MaskBuilder:
    """Mutable; one per mask. `rows`: bitmasks of sure tokens, `sure`: further sure tokens. `tables`: notes what keeps
    tables, by id."""

    __slots__ = ("direct", "doubtful", "guards", "rows", "sure", "tables", "vocabulary")

    def __init__(self, vocabulary: Vocabulary, tables: dict[int, LearnedTables] | None = None) -> None:
        self.vocabulary = vocabulary
        self.rows: list[I32] = []
        self.sure: list[I32] = []
        self.doubtful: dict[tuple[tuple[Guard, ...], bool], list[I32]] = {}
        """By guards, and whether these are asked about the open string, or about the next one if none is open."""
        self.guards: tuple[Guard, ...] = ()
        self.direct = False
        self.tables: dict[int, LearnedTables] = {} if tables is None else tables

    def add(self, ids: I32 | None) -> None:
        """Add `ids`, under the present `guards`."""
        if ids is not None and ids.size:
            if self.guards:
                self.doubtful.setdefault((self.guards, self.direct), []).append(ids)
            else:
                self.sure.append(ids)

    def add_boundary(self, ahead: Lookahead, tokens: BoundaryTokens, in_string: bool) -> None:
        """Add those of `tokens` that `ahead` allows."""
        self.add(tokens.taken(ahead.read))
        outer = self.guards, self.direct
        for guards, direct, read, _ in ahead.doubtful:
            self.guards = (*outer[0], *guards)
            self.direct = direct and not in_string
            self.add(tokens.taken(read))
        self.guards, self.direct = outer
