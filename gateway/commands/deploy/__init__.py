"""`sluicegate deploy`: the gateway on a cluster."""

from sluicegate.gateway.commands.deploy.command import define

__all__ = ["define"]
