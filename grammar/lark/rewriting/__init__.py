"""Rewrite grammars into what Lark's own loader reads, and map places in that back to what was written."""
