"""Phrases and patterns that no answer may hold, taken out of every mask."""

from sluicegate.grammar.blocked.language.blocklist import Blocklist
from sluicegate.grammar.blocked.screen import Screen

__all__ = ["Blocklist", "Screen"]
