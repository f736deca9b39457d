"""Internal ticket numbers never leave the gateway."""

from __future__ import annotations

from sluicegate.plugins import RegistryLike, add_stage
from sluicegate_ticket_rail.rail import TicketRail
from sluicegate_ticket_rail.settings import TicketSettings

__all__ = ["TicketRail", "register"]


def register(registry: RegistryLike) -> None:
    """Register the rail. `pyproject.toml` names this function as the plug-in's entry point."""
    add_stage(registry, "moderate", "tickets", TicketSettings, TicketRail, api_version=1)
