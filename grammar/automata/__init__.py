"""Finite automata over characters and over bytes: patterns, formats, number ranges, and what JSON makes of them."""

from grammar.automata.bodies import Body, string_body
from grammar.automata.budget import DEFAULT_BUDGET, Budget
from grammar.automata.bytedfa import (
    ByteDfa,
    byte_concat,
    byte_difference,
    byte_intersection,
    byte_literal,
    byte_star,
    byte_union,
    minimize,
)
from grammar.automata.chardfa import CharDfa
from grammar.automata.formats import FORMAT_NAMES
from grammar.automata.number import number_dfa
from grammar.automata.residual import residual_digests
from grammar.automata.strings import json_string_body, utf8

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
