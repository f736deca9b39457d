"""`sluicegate probe`: train and judge probes on the hidden states of a model."""

from __future__ import annotations

from sluicegate.gateway.commands.probe.command import define

__all__ = ["define"]
