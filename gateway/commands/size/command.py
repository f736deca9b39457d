"""`sluicegate size MODEL`: what a model needs, what it fits on, how fast it can be at best, and what that costs."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.size.capacity import NodeCount
from sluicegate.gateway.commands.size.demand import as_rows as counts_as_json
from sluicegate.gateway.commands.size.demand import counts, define_demand
from sluicegate.gateway.commands.size.demand import text as text_of_counts
from sluicegate.gateway.commands.size.sizing import DEVICES, RESERVE, MemoryNeed, Placement, fit, need, read_shape
from sluicegate.plugins import ConfigurationError

FORMULA = f"""\
weights = parameters x bytes;  KV per token = sum over layers of 2 x KV heads x head size x bytes (latent: rank + rope)
step    = max((active weights + sequences x KV read) / bandwidth, 2 x active parameters x sequences / compute)
tokens/s = sequences / step;  {RESERVE:.0%} of each device is left for activations
A roofline is what no engine can pass: measure with `sluicegate bench`."""

NODES_FORMULA = """
seconds = (1 - kept) x (prompt x (1 - read) / prefill rate + answer x step / (places x (1 + acceptance)))
nodes   = requests of the busiest second x seconds / utilisation"""


def define(size: argparse.ArgumentParser) -> None:
    """Add the arguments of `size`."""
    size.add_argument("model", help="`bundled`, a folder with config.json, or such a file")
    size.add_argument("--context", type=int, default=4096, help="positions of a sequence (%(default)s)")
    size.add_argument("--concurrency", type=int, default=16, help="sequences at once (%(default)s)")
    size.add_argument(
        "--dtype", help="of the weights: float32, bfloat16, float8, int8, int4 (default: as the files are)"
    )
    size.add_argument("--kv-dtype", help="of the KV cache (default: 16 bits)")
    size.add_argument("--device", action="append", help=f"any of {', '.join(DEVICES)}; may be repeated (default: all)")
    size.add_argument("--price", action="append", default=[], metavar="DEVICE=HOUR", help="price of a device and hour")
    size.add_argument("--json", action="store_true", help="print one JSON object")
    define_demand(size)
    size.set_defaults(run=_size)


def _size(parsed: argparse.Namespace) -> int:
    shape = read_shape(_folder(parsed.model))
    needed = need(
        shape, context=parsed.context, sequences=parsed.concurrency, dtype=parsed.dtype, kv_dtype=parsed.kv_dtype
    )
    prices = dict(_price(text) for text in parsed.price)
    fits = [fit(needed, DEVICES[name]) for name in _devices(parsed.device)]
    nodes = counts(parsed, needed, fits, prices)
    print(json.dumps(_report(needed, fits, prices, nodes)) if parsed.json else _text(needed, fits, prices, nodes))
    return 0


def _folder(model: str) -> Path:
    if model == "bundled":
        from sluicegate import engine

        return Path(engine.__file__).parent / "bundled"
    return Path(model)


def _devices(asked: list[str] | None) -> list[str]:
    if unknown := sorted(set(asked or ()) - set(DEVICES)):
        raise ConfigurationError(f"unknown device {unknown[0]!r}; known are {', '.join(DEVICES)}")
    return asked or list(DEVICES)


def _price(text: str) -> tuple[str, float]:
    name, _, price = text.partition("=")
    try:
        return _devices([name])[0], float(price)
    except ValueError as error:
        raise ConfigurationError(f"--price {text!r} must look like H200=3.5") from error


def _report(
    needed: MemoryNeed, fits: list[Placement], prices: dict[str, float], nodes: dict[str, NodeCount]
) -> dict[str, Any]:
    return {
        "model_type": needed.shape.kind,
        "attention": needed.shape.attention,
        "parameters": needed.shape.parameters,
        "active_parameters": needed.shape.active,
        "weight_bytes": needed.weight_bytes,
        "kv_bytes_per_token": needed.kv_per_token,
        "kv_bytes": needed.kv_bytes,
        "total_bytes": needed.total_bytes,
        **({"nodes": counts_as_json(nodes)} if nodes else {}),
        "devices": [
            {
                "device": found.device.name,
                "count": found.devices,
                "sequences": found.sequences,
                "tokens_per_s": found.tokens_per_s,
                "itl_s": found.step_s,
                "prefill_s": found.prefill_s,
                "cost_per_million": found.cost(price) if (price := prices.get(found.device.name)) else None,
            }
            for found in fits
        ],
    }


def _text(needed: MemoryNeed, fits: list[Placement], prices: dict[str, float], nodes: dict[str, NodeCount]) -> str:
    shape = needed.shape
    active = f", {shape.active / 1e9:.3g} billion active" if shape.active < 0.9 * shape.parameters else ""
    lines = [
        f"{shape.kind}: {shape.parameters / 1e9:.3g} billion parameters{active}, {shape.attention} attention",
        f"weights            {_bytes(needed.weight_bytes):>10}",
        f"KV cache a token   {_bytes(needed.kv_per_token):>10}",
        f"KV cache in all    {_bytes(needed.kv_bytes):>10}  ({needed.sequences} sequences of {needed.context})",
        f"together           {_bytes(needed.total_bytes):>10}",
        "",
        f"{'device':10} {'count':>5} {'sequences':>9} {'tokens/s':>10} {'a token':>9} {'prompt':>9} {'cost/M':>9}",
    ]
    for found in fits:
        price = prices.get(found.device.name)
        cost = f"{found.cost(price):.3f}" if price and found.sequences else "-"
        lines.append(
            f"{found.device.name:10} {found.devices:>5} {found.sequences:>9} {found.tokens_per_s:>10.0f} "
            f"{found.step_s * 1e3:>6.2f} ms {found.prefill_s * 1e3:>6.1f} ms {cost:>9}"
        )
    if nodes:
        lines += text_of_counts(nodes)
    return "\n".join([*lines, "", FORMULA + (NODES_FORMULA if nodes else "")])


def _bytes(size: float) -> str:
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{size / factor:.2f} {unit}"
    return f"{size:.0f} B"
