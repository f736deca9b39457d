"""Structural tags: free text with tagged regions, each under a grammar of its own."""

from sluicegate.grammar.tags.compile import compile_structural_tags

__all__ = ["compile_structural_tags"]
