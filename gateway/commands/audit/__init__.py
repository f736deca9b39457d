"""`sluicegate audit`: whether the log of who changed what is whole."""

from sluicegate.gateway.commands.audit.command import define

__all__ = ["define"]
