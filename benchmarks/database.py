"""Measure the cost of sharing state by PostgreSQL: transactions, and CPU time of server and gateway, for each request.

A server and two gateways of this machine, with a database and without; a key has all limits, so that leases, usage and
budgets go through it. The model says words at once, so that what is measured is the gateway's own work. CPU time is
read from the kernel and holds on a machine that others use as well.

    python -m benchmarks.database [--limit 400] [--callers 8]
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import httpx

from benchmarks import common
from sluicegate.gateway.commands.bench import BenchLoad, measure
from tests.cache.redis_server import free_port
from tests.gateway.stores.postgres_server import PostgresServer, _missing
from tests.waiting import until

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "tests" / "scale" / "gateway_process.py"
KEY = "caller"
CONFIG = """
[server]
port = {port}
[pipeline]
generate = ["paced"]
constrain = ["unconstrained"]
recall = []
[accounts]
journal = "{folder}/journal-{port}"
prices = {{ scripted = {{ output = 1.0 }} }}
{database}
[[keys]]
id = "caller"
key = "caller"
limits = {{ requests_per_minute = 1000000, tokens_per_minute = 100000000, concurrency = 1000, budget_day = 100.0 }}
"""
IDLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    requests: int
    gateway_s: float
    server_s: float
    transactions: int


@contextmanager
def gateways(folder: Path, database: str) -> Iterator[list[tuple[int, str]]]:
    """Yield process and address of two that serve."""
    with ExitStack() as stack:
        found = []
        for _ in range(2):
            port = free_port()
            config = folder / f"{port}.toml"
            config.write_text(CONFIG.format(port=port, folder=folder, database=database), "utf-8")
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            process = subprocess.Popen(
                [sys.executable, "-P", PROGRAM, config, "0"], env=environment, stdout=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.kill)
            found.append((process.pid, f"http://127.0.0.1:{port}"))
        for _, url in found:
            until(partial(serves, url))
        yield found


def serves(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.HTTPError:
        return False


def cpu_s(pid: int) -> float:
    """Read the CPU seconds of a process and of those that it began and has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def server_cpu_s(server: PostgresServer | None) -> float:
    return 0.0 if server is None else sum(map(cpu_s, server._pids()))


def transactions(server: PostgresServer | None) -> int:
    if server is None:
        return 0
    [[count]] = server.ask("select xact_commit + xact_rollback from pg_stat_database where datname = 'postgres'")
    return int(str(count))


def ask_all(urls: list[str], requests: int, callers: int) -> None:
    body = {"model": "scripted", "max_tokens": 20, "messages": [{"role": "user", "content": "Speak."}]}

    async def both() -> None:
        loads = [BenchLoad(url, (body,), KEY) for url in urls]
        levels = await asyncio.gather(*(measure(load, callers, requests // len(urls)) for load in loads))
        assert not any(level.failed for level in levels), [level.errors for level in levels]

    asyncio.run(both())


def cost(server: PostgresServer | None, running: list[tuple[int, str]], requests: int, callers: int) -> Cost:
    """Measure what so many requests cost. What the same time would have taken at rest is included."""
    pids, urls = [pid for pid, _ in running], [url for _, url in running]
    ask_all(urls, 2 * callers, callers)
    before = sum(map(cpu_s, pids)), server_cpu_s(server), transactions(server)
    ask_all(urls, requests, callers)
    time.sleep(2.0)  # the last usage is flushed
    after = sum(map(cpu_s, pids)), server_cpu_s(server), transactions(server)
    return Cost(requests, after[0] - before[0], after[1] - before[1], int(after[2] - before[2]))


def main() -> None:
    parser = common.parser(__doc__, None, 400, "requests, of both gateways together")
    parser.add_argument("--callers", type=int, default=8, help="at each gateway (%(default)s)")
    asked = parser.parse_args()
    if missing := _missing():
        raise SystemExit(missing)
    print(f"{common.machine()}; two gateways, {asked.callers} callers each, streams of 12 pieces")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        with gateways(folder, "") as running:
            alone = cost(None, running, asked.limit, asked.callers)
            show("without a database", alone)
        server = PostgresServer()
        try:
            server.start()
            with gateways(folder, f'[database]\nurl = "{server.url()}"\n') as running:
                shared = cost(server, running, asked.limit, asked.callers)
                show("with one", shared)
                at_rest = rest(server)
        finally:
            server.remove()
    found = {"without a database": dataclasses.asdict(alone), "with one": dataclasses.asdict(shared)}
    common.report(asked, {**found, "at rest": at_rest})


def show(what: str, found: Cost) -> None:
    gateway, server = (1e3 * one / found.requests for one in (found.gateway_s, found.server_s))
    print(
        f"{what}: {found.requests} requests, CPU each: gateway {gateway:.2f} ms, PostgreSQL {server:.2f} ms",
        end="",
    )
    print(f"; {found.transactions / found.requests:.2f} transactions a request")


def rest(server: PostgresServer) -> dict[str, float]:
    before, count = server_cpu_s(server), transactions(server)
    time.sleep(IDLE_S)
    took, more = server_cpu_s(server) - before, transactions(server) - count
    print(f"at rest: {more / IDLE_S:.1f} transactions a second of both, {took / IDLE_S:.1%} of a processor")
    return {"transactions_per_s": more / IDLE_S, "processors": took / IDLE_S}


if __name__ == "__main__":
    main()
