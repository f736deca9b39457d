"""The part of `sluicegate size` that counts nodes: for each device at best, or for a node that was measured."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.size.capacity import DailyDemand, NodeCount, NodeFigures, nodes_of, read_figures
from sluicegate.gateway.commands.size.sizing import MemoryNeed, Placement
from sluicegate.plugins import ConfigurationError

MEASURED = "measured"


def define_demand(size: argparse.ArgumentParser) -> None:
    """Add the arguments of a day's requests."""
    day = size.add_argument_group("nodes for a day's requests")
    day.add_argument("--requests-per-day", type=float, metavar="N", help="count nodes for so many")
    day.add_argument("--prompt", type=float, default=600, help="tokens of a prompt (%(default)s)")
    day.add_argument("--answer", type=float, default=100, help="tokens of an answer (%(default)s)")
    day.add_argument("--read", type=float, default=0.0, help="share of prompts in the prefix cache (%(default)s)")
    day.add_argument("--kept", type=float, default=0.0, help="share of requests with a kept answer (%(default)s)")
    day.add_argument("--acceptance", type=float, default=0.0, help="drafts accepted in each step (%(default)s)")
    day.add_argument("--peak", type=float, default=2.0, help="busiest second over the day's mean (%(default)s)")
    day.add_argument("--utilisation", type=float, default=0.6, help="of a node in that second (%(default)s)")
    day.add_argument("--figures", type=Path, help="a node as `benchmarks.scale` measured it, instead of the devices")
    day.add_argument("--node-price", type=float, default=0.0, help="of an hour of that node")


def counts(
    parsed: argparse.Namespace, needed: MemoryNeed, fits: Sequence[Placement], prices: Mapping[str, float]
) -> dict[str, NodeCount]:
    """Return nodes by name of the device, or of the measured node; none where no requests are named. Raises
    `ConfigurationError`."""
    if parsed.requests_per_day is None:
        return {}
    demand = DailyDemand(parsed.requests_per_day, parsed.prompt, parsed.answer, parsed.read, parsed.kept, parsed.peak)
    if parsed.acceptance < 0:
        raise ConfigurationError("--acceptance must be at least 0: drafts accepted beside the token of each step")
    if parsed.figures is not None:
        nodes = {MEASURED: (read_figures(parsed.figures), parsed.node_price)}
    else:
        nodes = {
            found.device.name: (at_best(needed, found), prices.get(found.device.name, 0.0) * found.devices)
            for found in fits
            if found.sequences
        }
    return {name: _count(demand, node, parsed, price) for name, (node, price) in nodes.items()}


def _count(demand: DailyDemand, node: NodeFigures, parsed: argparse.Namespace, price: float) -> NodeCount:
    faster = replace(node, tokens_per_step=node.tokens_per_step + parsed.acceptance)
    return nodes_of(demand, faster, utilisation=parsed.utilisation, price_per_hour=price)


def at_best(needed: MemoryNeed, found: Placement) -> NodeFigures:
    """Return a node of that device at its roofline: no engine reaches it."""
    alone = needed.active_bytes / (found.device.bandwidth * found.devices)
    each = max(0.0, found.step_s - alone) / max(1, found.sequences - 1)
    return NodeFigures(needed.context / found.prefill_s, max(alone, 1e-9), each, found.sequences)


def as_rows(found: Mapping[str, NodeCount]) -> dict[str, Any]:
    return {name: asdict(one) for name, one in found.items()}


def text(found: Mapping[str, NodeCount]) -> list[str]:
    """Return a table, prices of a million tokens where an hour's is known."""
    lines = ["", f"{'node':10} {'nodes':>8} {'seconds each':>13} {'input/M':>9} {'output/M':>9}"]
    for name, one in found.items():
        prices = [f"{price:.4f}" if price else "-" for price in (one.input_price, one.output_price)]
        lines.append(f"{name:10} {one.nodes:>8,} {one.node_s:>13.5f} {prices[0]:>9} {prices[1]:>9}")
    return lines
