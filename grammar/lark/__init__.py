"""Grammars in Lark's notation."""

from sluicegate.grammar.lark.compile import compile_lark

__all__ = ["compile_lark"]
