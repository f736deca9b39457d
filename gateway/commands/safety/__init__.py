"""`sluicegate safety`: learn from what operators and callers report."""

from __future__ import annotations

from sluicegate.gateway.commands.safety.command import define

__all__ = ["define"]
