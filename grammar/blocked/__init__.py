"""Phrases and patterns that no answer may hold, taken out of every mask."""

from grammar.blocked.blocklist import Blocklist
from grammar.blocked.screen import Screen

__all__ = ["Blocklist", "Screen"]
