"""The way back from a backup."""

from sluicegate.gateway.commands.restore.command import define

__all__ = ["define"]
