"""A grammar that was read, from any notation."""

from __future__ import annotations

from typing import NamedTuple

from sluicegate.grammar.lark.regions import JsonRegion
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.parsing.parser import ParserTables
from sluicegate.grammar.parsing.rules import Production


class Grammar(NamedTuple):
    """Rules over lexemes, from either notation; `regions`: JSON values by the name of their terminal."""

    rules: list[Production]
    lexemes: dict[str, DfaLexeme]
    ignored: frozenset[str]
    start: str
    regions: dict[str, JsonRegion]

    def tables(self) -> ParserTables:
        return ParserTables(self.rules, self.lexemes, self.ignored, self.start, self.regions)
