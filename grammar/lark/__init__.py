"""Grammars in Lark's notation."""

from __future__ import annotations

from grammar.matcher import CompiledGrammar
from grammar.vocabulary import Vocabulary
from plugins.errors import UnsupportedGrammar

__all__ = ["compile_lark"]


def compile_lark(text: str, vocabulary: Vocabulary) -> CompiledGrammar:
    """Texts of the grammar's rule `start`."""
    raise UnsupportedGrammar("Lark grammars are not compiled yet; use a JSON schema, a regex or choices")
