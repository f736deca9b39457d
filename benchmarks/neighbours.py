"""Measure what a hostile tenant costs others: first text, whole answers and `/healthz`, without and with each attack.

    nice -n 5 python -m benchmarks.neighbours --json [--attacks long-prompt,lark] [--seconds 6] [--rate 12]

A real gateway with a key for each tenant; well-behaved clients at a steady rate (streams, and answers under a schema)
and a prober that asks `/healthz` twenty times a second are one process each, the attacker is another, at low priority.
Before and after each attack the same clients are measured alone, since other work of the machine comes and goes: an
attack's ratio is its p99 by the worse of the two, and `/healthz` of both stands beside.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.common import machine, parser, report
from benchmarks.neighbours_attacks import ATTACKS, attack
from benchmarks.neighbours_clients import BAD, GOOD, probe, well_behaved

START_S = 300.0
SETTLE_S = 1.0
"""After an attack, so that what it left is no part of the next measurement."""
HEAD = """
| attack | alone: first text | whole | beside: first text | whole | p99 ratio | /healthz worst | failed | memory MB |
|---|--:|--:|--:|--:|--:|--:|--:|--:|"""
"""Times in ms, p50 / p99; `/healthz` and failed requests alone / beside."""


def main() -> None:
    made = parser(__doc__, None, 0, "attacks")
    made.add_argument("--attacks", default=",".join(ATTACKS), help="which, by name")
    made.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    made.add_argument("--rate", type=float, default=12.0, help="requests a second of the well-behaved")
    made.add_argument("--part", nargs=2, help="run one process of the benchmark: its name, and the gateway's address")
    args = made.parse_args()
    if args.part:
        print(json.dumps(asyncio.run(_part(args.part[0], args.part[1], args))))
        return
    chosen = args.attacks.split(",")[: args.limit or None]
    if unknown := set(chosen) - set(ATTACKS):
        raise SystemExit(f"no such attack: {', '.join(sorted(unknown))}; there are {', '.join(ATTACKS)}")
    with tempfile.TemporaryDirectory() as folder:
        print(f"# {machine()}")
        found = _measured(Path(folder), chosen, args)
        print(f"# {machine()}")
    report(args, found)


async def _part(name: str, url: str, args: Any) -> Any:
    if name == "clients":
        return await well_behaved(url, args.rate, args.seconds)
    if name == "prober":
        return await probe(url, args.seconds)
    os.nice(10)
    return await attack(name, url, args.seconds)


def _measured(folder: Path, chosen: list[str], args: Any) -> dict[str, Any]:
    gateway = Gateway(folder)
    try:
        gateway.start()
        _beside("", gateway, args)  # what is compiled once is compiled now
        print(HEAD)
        alone, rows = [_beside("", gateway, args)], {}
        for name in chosen:
            rows[name] = _beside(name, gateway, args)
            time.sleep(SETTLE_S)
            alone.append(_beside("", gateway, args))
            _print(name, alone[-2:], rows[name])
    finally:
        gateway.stop()
    return {"machine": machine(), "alone": alone, "beside": rows}


def _beside(name: str, gateway: Gateway, args: Any) -> dict[str, Any]:
    """Measure once with the attack `name` at work; "" means none."""
    before_mb, parts = gateway.rss_mb(), ["clients", "prober", *([name] if name else [])]
    running = {part: _started(part, gateway.url, args) for part in parts}
    found: dict[str, Any] = {}
    for part, process in running.items():
        out, _ = process.communicate(timeout=args.seconds + 120)
        if process.returncode:
            raise SystemExit(f"the part {part!r} failed with status {process.returncode}")
        result = json.loads(out.splitlines()[-1])
        found |= {"did": result} if part == name else result
    return {**found, "rss_mb": gateway.rss_mb() - before_mb}


def _started(part: str, url: str, args: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.neighbours", "--part", part, url]
    given = ["--seconds", str(args.seconds), "--rate", str(args.rate)]
    return subprocess.Popen([*command, *given], stdout=subprocess.PIPE)


def _print(name: str, alone: list[dict[str, Any]], row: dict[str, Any]) -> None:
    base = {key: max(one[key] for one in alone) for key in alone[0]}
    ratio = max(row[key] / base[key] for key in ("first_p99_ms", "whole_p99_ms"))
    times = [f"{_ms(one, 'first')} | {_ms(one, 'whole')}" for one in (base, row)]
    health = f"{base['health_worst_ms']:.0f} / {row['health_worst_ms']:.0f}"
    failed = f"{base['failed']:g} / {row['failed']:g}"
    print(
        f"| {name} | {times[0]} | {times[1]} | {ratio:.1f} | {health} | {failed} | {row['rss_mb']:+.0f} |", flush=True
    )


def _ms(row: dict[str, Any], what: str) -> str:
    return f"{row[f'{what}_p50_ms']:.0f} / {row[f'{what}_p99_ms']:.0f}"


class Gateway:
    """`sluicegate serve` with a key for each tenant."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        path = self._folder / "gateway.toml"
        path.write_text(self._configuration(), "utf-8")
        command = [sys.executable, "-m", "sluicegate.gateway.commands.cli", "serve", "--config", str(path)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        ends_s = time.monotonic() + START_S
        while not self._ready():
            if time.monotonic() > ends_s or self._process.poll() is not None:
                raise SystemExit("the gateway did not become ready")
            time.sleep(0.2)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)

    def rss_mb(self) -> float:
        assert self._process is not None
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGESIZE") / 1e6

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _configuration(self) -> str:
        """Write the configuration. The well-behaved may have as many requests open as they like: a slow answer is then
        slow, not refused."""
        keys = "".join(f'[[keys]]\nid = "{key}"\nkey = "{key}"\n' for key in (GOOD, BAD))
        keys += "limits = { concurrency = 16 }\n"
        return keys + textwrap.dedent(f"""
            [server]
            port = {self._port}
            log_level = "critical"
            [batches]
            path = "{self._folder / "batches"}"
            [pipeline]
            screen = ["secrets", "injection"]
            moderate = ["secrets", "pii"]
            """)


if __name__ == "__main__":
    main()
