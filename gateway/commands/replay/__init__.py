"""Ask recorded requests again, and count what is different."""

from sluicegate.gateway.commands.replay.command import define

__all__ = ["define"]
