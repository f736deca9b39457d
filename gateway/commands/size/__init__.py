"""`sluicegate size`: what a model needs, what it fits on, and how many nodes a day's requests need."""

from sluicegate.gateway.commands.size.command import define

__all__ = ["define"]
