"""Load on a running gateway, and what came of it."""

from sluicegate.gateway.commands.bench.command import add_bench
from sluicegate.gateway.commands.bench.load import Level, Load, measure
from sluicegate.gateway.commands.bench.plot import plot

__all__ = ["Level", "Load", "add_bench", "measure", "plot"]
