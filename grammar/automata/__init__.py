"""Finite automata over characters and bytes: patterns, formats, number ranges, and their spellings in JSON."""

from sluicegate.grammar.automata.byte_level.bytedfa import (
    ByteDfa,
    byte_difference,
    byte_intersection,
    byte_union,
)
from sluicegate.grammar.automata.byte_level.json_strings import string_body, utf8
from sluicegate.grammar.automata.byte_level.numbers import number_dfa
from sluicegate.grammar.automata.byte_level.residual import residual_digests
from sluicegate.grammar.automata.byte_level.string_bodies import StringTable, string_table
from sluicegate.grammar.automata.chardfa import CharDfa
from sluicegate.grammar.automata.formats import FORMAT_NAMES, format_dfa
from sluicegate.grammar.budget.meter import DEFAULT_BUDGET, Budget

__all__ = [
    "DEFAULT_BUDGET",
    "FORMAT_NAMES",
    "Budget",
    "ByteDfa",
    "CharDfa",
    "StringTable",
    "byte_difference",
    "byte_intersection",
    "byte_union",
    "format_dfa",
    "number_dfa",
    "residual_digests",
    "string_body",
    "string_table",
    "utf8",
]
