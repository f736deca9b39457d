"""Evaluate a running gateway on cases with known answers: one version of it, or two side by side."""

from sluicegate.gateway.commands.eval.command import define

__all__ = ["define"]
