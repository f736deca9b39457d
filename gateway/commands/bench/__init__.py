"""Load on a running gateway, and what came of it."""

from sluicegate.gateway.commands.bench.command import define
from sluicegate.gateway.commands.bench.load import BenchLoad, Level, measure
from sluicegate.gateway.commands.bench.plot import plot

__all__ = ["BenchLoad", "Level", "define", "measure", "plot"]
