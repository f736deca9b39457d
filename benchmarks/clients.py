"""Measure disconnecting and idle clients: how soon the engine stops, and the cost of an idle stream.

python -m benchmarks.clients --limit 40            # streams that are left half way, with the bundled model
python -m benchmarks.clients --idle 10000          # streams of which nothing comes, with a scripted model
"""

from __future__ import annotations

import asyncio
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn

from benchmarks.common import machine, parser, report
from benchmarks.idle_clients import allow_files, opened
from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import load
from sluicegate.gateway.runtime import Runtime
from sluicegate.gateway.server import _uvicorn_config, settle_memory
from sluicegate.gateway.testing import TestApp

BODY: dict[str, Any] = {"messages": [{"role": "user", "content": "Tell me a long story."}], "stream": True}


def main() -> None:
    made = parser(__doc__, None, 40, "streams that are left")
    made.add_argument("--idle", type=int, default=0, help="idle streams instead")
    given = made.parse_args()
    print(machine())
    found = idle(given.idle) if given.idle else leaving(given.limit)
    for name, value in found.items():
        print(f"{name:28} {value:.2f}")
    report(given, found)


def leaving(limit: int) -> dict[str, float]:
    """Measure the milliseconds from closing the socket until the engine runs nothing any more."""
    runtime = compose(load(), {})
    took: list[float] = []
    with serving(runtime) as port:
        stats = runtime.pipeline.stages.generate[1].stats
        for _ in range(limit):
            connection = opened(port, {**BODY, "model": "bundled", "max_tokens": 400, "ignore_eos": True})
            connection.recv(200)
            while stats()["requests_running"] < 1:
                time.sleep(0.0005)
            left = time.perf_counter()
            connection.close()
            while stats()["requests_running"] > 0:
                time.sleep(0.0005)
            took.append((time.perf_counter() - left) * 1e3)
    took.sort()
    return {"left_ms_p50": took[len(took) // 2], "left_ms_p90": took[int(len(took) * 0.9)], "left_ms_max": took[-1]}


def idle(count: int) -> dict[str, float]:
    """Measure streams that stay open and silent, of clients in another process: the memory of one at the gateway, and
    how long other requests take meanwhile and took before."""
    allow_files(count + 1000)
    app = TestApp(script=["x"], delay_s=3600)
    with serving(app.runtime) as port:
        alone = waits_ms(port)
        before = rss_kb()
        command = [sys.executable, "-m", "benchmarks.idle_clients", str(port), str(count)]
        clients = subprocess.Popen(command, stdin=subprocess.PIPE)
        while len(app.model.generations) < count:
            time.sleep(0.02)
        each = (rss_kb() - before) / count
        meanwhile = waits_ms(port)
        clients.communicate()
        closed = time.perf_counter()
        while len(app.outcomes) < count:
            time.sleep(0.02)
        return {
            "streams": float(count),
            "memory_of_one_kb": each,
            "alone_ms_p50": alone[len(alone) // 2],
            "alone_ms_max": alone[-1],
            "meanwhile_ms_p50": meanwhile[len(meanwhile) // 2],
            "meanwhile_ms_p99": meanwhile[int(len(meanwhile) * 0.99)],
            "meanwhile_ms_max": meanwhile[-1],
            "all_given_back_s": time.perf_counter() - closed,
        }


def waits_ms(port: int, count: int = 400, pause_s: float = 0.05) -> list[float]:
    """Return the milliseconds that one request after the other took, sorted. The requests go on long enough for every
    stream to have had its comment lines."""
    took = []
    for _ in range(count):
        began = time.perf_counter()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"GET /v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            while connection.recv(65536):
                pass
        took.append((time.perf_counter() - began) * 1e3)
        time.sleep(pause_s)
    return sorted(took)


def rss_kb() -> float:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize() / 1024


@contextmanager
def serving(runtime: Runtime) -> Iterator[int]:
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    server = uvicorn.Server(_uvicorn_config(runtime.settings, runtime))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    while not runtime.ready:
        if runtime.progress.failure is not None:
            raise runtime.progress.failure
        time.sleep(0.02)
    settle_memory()
    try:
        yield int(listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(20)


if __name__ == "__main__":
    main()
