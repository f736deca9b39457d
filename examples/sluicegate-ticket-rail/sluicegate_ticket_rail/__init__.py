"""Internal ticket numbers never leave the gateway."""

from __future__ import annotations

from sluicegate.plugins import RegistryLike
from sluicegate_ticket_rail.rail import TicketRail
from sluicegate_ticket_rail.settings import read_settings

__all__ = ["TicketRail", "register"]


def register(registry: RegistryLike) -> None:
    """The door that `pyproject.toml` names."""
    registry.add("moderate", "tickets", lambda settings: TicketRail(read_settings(settings)), api_version=1)
