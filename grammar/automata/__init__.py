"""Finite automata over characters and over bytes: patterns, formats, number ranges, and what JSON makes of them."""

from sluicegate.grammar.automata.bodies import Body, string_body
from sluicegate.grammar.automata.budget import DEFAULT_BUDGET, Budget
from sluicegate.grammar.automata.bytedfa import (
    ByteDfa,
    byte_concat,
    byte_difference,
    byte_intersection,
    byte_literal,
    byte_star,
    byte_union,
    minimize,
)
from sluicegate.grammar.automata.chardfa import CharDfa
from sluicegate.grammar.automata.formats import FORMAT_NAMES
from sluicegate.grammar.automata.number import number_dfa
from sluicegate.grammar.automata.residual import residual_digests
from sluicegate.grammar.automata.strings import json_string_body, utf8

__all__ = [
    "DEFAULT_BUDGET",
    "FORMAT_NAMES",
    "Body",
    "Budget",
    "ByteDfa",
    "CharDfa",
    "byte_concat",
    "byte_difference",
    "byte_intersection",
    "byte_literal",
    "byte_star",
    "byte_union",
    "json_string_body",
    "minimize",
    "number_dfa",
    "residual_digests",
    "string_body",
    "utf8",
]
