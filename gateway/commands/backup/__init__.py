"""Copies of what a deployment must not lose, and the way back from them."""

from sluicegate.gateway.commands.backup.command import define
from sluicegate.gateway.commands.backup.copying import back_up, restore

__all__ = ["back_up", "define", "restore"]
