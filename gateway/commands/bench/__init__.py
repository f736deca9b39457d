"""Load on a running gateway, and what came of it."""

from sluicegate.gateway.commands.bench.command import define
from sluicegate.gateway.commands.bench.load import BenchLoad, LoadLevel, measure
from sluicegate.gateway.commands.bench.plot import plot

__all__ = ["BenchLoad", "LoadLevel", "define", "measure", "plot"]
