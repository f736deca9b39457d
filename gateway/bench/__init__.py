"""Load on a running gateway, and what came of it."""

from sluicegate.gateway.bench.command import add_bench
from sluicegate.gateway.bench.load import Level, Load, measure
from sluicegate.gateway.bench.plot import plot

__all__ = ["Level", "Load", "add_bench", "measure", "plot"]
