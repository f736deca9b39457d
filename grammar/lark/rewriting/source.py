"""A grammar in Lark's or llguidance's notation: as written, as Lark reads it, and what is left to us."""

from __future__ import annotations

from typing import Any

from sluicegate.grammar.lark.extensions.parameters import Parameters
from sluicegate.grammar.lark.rewriting.attributes import Composed
from sluicegate.grammar.lark.rewriting.definitions import Definition
from sluicegate.grammar.lark.rewriting.pieces import GrammarPiece
from sluicegate.grammar.lark.rewriting.source_map import SourceMap

MARK = "\uf8ff"


class Source(SourceMap):
    """`text`: what Lark reads, with a terminal for each `%json {...}` and for each one of `composed`. As it is made it
    needs no rewriting; `rewrite.rewritten` returns those that do.

    `schemas`: schemas and their offsets in what was written, by the name of the terminal; `grammars`: likewise those of
    `%lark`, and `tokens` as `<...>`. `imports`: lines that import from Lark's library.
    """

    def __init__(self, written: str) -> None:
        super().__init__(written)
        self.schemas: dict[str, tuple[Any, int]] = {}
        self.grammars: dict[str, tuple[str, int]] = {}
        self.tokens: dict[str, tuple[str, int]] = {}
        self.parameters = Parameters(set(), {}, {})
        self.composed: dict[str, Composed] = {}
        self.pieces: list[GrammarPiece] = []
        self.definitions: list[Definition] = []
        self.imports: list[str] = []


def marker(name: str) -> str:
    """Return the placeholder text of a terminal that is compiled here; no user types it."""
    return f"{MARK}{name}{MARK}"
