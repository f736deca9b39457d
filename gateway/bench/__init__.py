"""Load on a running gateway, and what came of it."""

from gateway.bench.command import add_bench
from gateway.bench.load import Level, Load, measure
from gateway.bench.plot import plot

__all__ = ["Level", "Load", "add_bench", "measure", "plot"]
