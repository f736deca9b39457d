"""What one hostile tenant costs the others: first text, whole answers and `/healthz`, without and beside each attack.

    nice -n 5 python -m benchmarks.neighbours --json [--attacks long-prompt,lark] [--seconds 10] [--rate 6]

A real gateway with a key for each tenant; well-behaved clients at a steady rate (streams, and answers under a schema)
and a prober that asks `/healthz` twenty times a second are one process each, the attacker is another, at low priority.
Before and after all attacks the same clients are measured alone; an attack stands beside both.
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

from benchmarks.common import machine, parser, records
from benchmarks.neighbours_attacks import ATTACKS, attack
from benchmarks.neighbours_clients import BAD, GOOD, probe, well_behaved

START_S = 300.0
SETTLE_S = 3.0
"""Between attacks, so that none pays for the one before."""


def main() -> None:
    made = parser(__doc__, "", 0)
    made.add_argument("--attacks", default=",".join(ATTACKS), help="which, by name")
    made.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    made.add_argument("--rate", type=float, default=6.0, help="requests a second of the well-behaved")
    made.add_argument("--part", nargs=2, help="run one process of the benchmark: its name, and the gateway's address")
    args = made.parse_args()
    if args.part:
        print(json.dumps(asyncio.run(_part(args.part[0], args.part[1], args))))
        return
    chosen = args.attacks.split(",")[: args.limit or None]
    with tempfile.TemporaryDirectory() as folder:
        print(f"# {machine()}")
        found = _measured(Path(folder), chosen, args)
        print(f"# {machine()}")
    if args.json:
        print(json.dumps(found))


async def _part(name: str, url: str, args: Any) -> Any:
    if name == "clients":
        texts = [str(one) for one in records(args.data, 100)] if args.data.is_file() else []
        return await well_behaved(url, args.rate, args.seconds, texts)
    if name == "prober":
        return await probe(url, args.seconds)
    os.nice(10)
    return await attack(name, url, args.seconds)


def _measured(folder: Path, chosen: list[str], args: Any) -> dict[str, Any]:
    gateway = Gateway(folder)
    try:
        gateway.start()
        _beside("", gateway, args)  # what is compiled once is compiled now
        alone, rows = [_beside("", gateway, args)], {}
        for name in chosen:
            rows[name] = _beside(name, gateway, args)
            time.sleep(SETTLE_S)
        alone.append(_beside("", gateway, args))
    finally:
        gateway.stop()
    base = {key: max(one[key] for one in alone) for key in alone[0] if isinstance(alone[0][key], float)}
    _print(base, rows)
    return {"machine": machine(), "alone": alone, "beside": rows}


def _beside(name: str, gateway: Gateway, args: Any) -> dict[str, Any]:
    """One measurement, with the attack `name` at work; "" = none."""
    before_mb, parts = gateway.rss_mb(), ["clients", "prober", *([name] if name else [])]
    running = {part: _started(part, gateway.url, args) for part in parts}
    found: dict[str, Any] = {}
    for part, process in running.items():
        out, _ = process.communicate(timeout=args.seconds + 120)
        told = json.loads(out.splitlines()[-1]) if process.returncode == 0 else {"broken": process.returncode}
        found |= {"did": told} if part == name else told
    return {**found, "rss_mb": gateway.rss_mb() - before_mb}


def _started(part: str, url: str, args: Any) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "benchmarks.neighbours", "--part", part, url, "--data", str(args.data)]
    given = ["--seconds", str(args.seconds), "--rate", str(args.rate)]
    return subprocess.Popen([*command, *given], stdout=subprocess.PIPE)


def _print(base: dict[str, float], rows: dict[str, dict[str, Any]]) -> None:
    print("| attack | first text p50 / p99 ms | whole p50 / p99 ms | p99 ratio | /healthz p99 / worst ms | memory MB |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, row in {"none": {**base, "rss_mb": 0.0}, **rows}.items():
        ratio = max(row["first_p99_ms"] / base["first_p99_ms"], row["whole_p99_ms"] / base["whole_p99_ms"])
        failed = f", {row['failed']:g} failed" if row.get("failed") else ""
        print(
            f"| {name} | {row['first_p50_ms']:.0f} / {row['first_p99_ms']:.0f} | {row['whole_p50_ms']:.0f} / "
            f"{row['whole_p99_ms']:.0f}{failed} | {ratio:.1f} | {row['health_p99_ms']:.0f} / "
            f"{row['health_worst_ms']:.0f} | {row['rss_mb']:+.0f} |"
        )


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
        command = [sys.executable, "-m", "gateway.cli", "serve", "--config", str(path)]
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
        keys = "".join(
            f'[[keys]]\nid = "{key}"\nkey = "{key}"\nlimits = {{ concurrency = 16 }}\n' for key in (GOOD, BAD)
        )
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
