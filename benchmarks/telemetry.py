"""Measure the cost of telemetry: CPU of the whole process per request, with no traces, one in ten, and all of them.

    python -m benchmarks.telemetry --limit 2000

As in `benchmarks.gateway` the application is called through ASGI and a scripted model answers at once. Traces are
exported to a collector on this machine (a process of its own, so that its work is not counted); the exporter's thread
is counted. `off` keeps metrics but neither traces nor the console's ring. Rounds of all settings alternate, so that a
busy machine disturbs all of them alike.
"""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import orjson

from benchmarks import common
from benchmarks.gateway import PIPELINE, STAGES, WORDS, call
from sluicegate.gateway.app import create_app
from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import load
from sluicegate.gateway.testing import TestApp

COLLECTOR = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200); self.send_header("content-length", "0"); self.end_headers()
    def log_message(self, *args): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""
ROUNDS = 9


@contextmanager
def collector() -> Iterator[int]:
    """Start a collector that takes everything; yield its port."""
    process = subprocess.Popen([sys.executable, "-c", COLLECTOR], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def settings_of(port: int) -> dict[str, tuple[bool, Mapping[str, str]]]:
    """Name -> (console, environment)."""
    asked = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{port}/v1/traces",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
    }
    return {
        "off": (False, {}),
        "console only": (True, {}),
        "sampled at 10 %": (True, {**asked, "OTEL_TRACES_SAMPLER_ARG": "0.1"}),
        "sampled at 100 %": (True, {**asked, "OTEL_TRACES_SAMPLER_ARG": "1.0"}),
    }


class Instrumented(TestApp):
    """The same gateway with other telemetry."""

    def __init__(self, script: list[str], console: bool, environ: Mapping[str, str]) -> None:
        super().__init__(pipeline=PIPELINE, stages=STAGES, script=script)
        tables = self.runtime.settings.pipeline
        overrides: dict[str, Any] = {
            "pipeline": {slot: list(getattr(tables, slot)) for slot in PIPELINE}
            | {"generate": ["scripted"], "constrain": ["unconstrained"]},
            "stages": STAGES,
            "telemetry": {"console": console},
        }
        settings = load(overrides=overrides)
        self.runtime = compose(settings, environ, registers=(self._register,))
        self.app = create_app(settings, runtime=self.runtime)


async def measure(requests: int, chunks: int, stream: bool) -> dict[str, float]:
    """Measure the microseconds of process CPU per request by setting, the fastest of alternating rounds: noise only
    ever adds."""
    script = [WORDS[i % len(WORDS)] for i in range(chunks)]
    with collector() as port:
        async with AsyncExitStack() as stack:
            apps = {}
            for name, (console, environ) in settings_of(port).items():
                apps[name] = await stack.enter_async_context(Instrumented(script, console, environ))
            return await _rounds(apps, requests, stream)


async def _rounds(apps: Mapping[str, TestApp], requests: int, stream: bool) -> dict[str, float]:
    found: dict[str, list[float]] = {name: [] for name in apps}
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "Where is it?"}], "stream": stream}
    bodies = {name: orjson.dumps({**body, "model": next(iter(app.runtime.models))}) for name, app in apps.items()}
    for _ in range(ROUNDS + 1):
        for name, app in apps.items():
            gc.collect()
            began = time.process_time()
            for _ in range(max(1, requests // ROUNDS)):
                await call(app.app, bodies[name])
            await _exported(app)
            found[name].append((time.process_time() - began) / max(1, requests // ROUNDS) * 1e6)
    return {name: round(min(values[1:]), 1) for name, values in found.items()}


async def _exported(app: TestApp) -> None:
    """Wait until what was sampled has been sent: its cost belongs to this round."""
    exporter = app.runtime.trace_sink.exporter
    while exporter is not None and exporter.stats()["traces_queued"]:
        exporter._wake.set()
        await asyncio.sleep(0.005)


def main() -> None:
    made = common.parser(__doc__, None, 3600, "requests of each setting")
    made.add_argument("--chunks", type=int, default=64, help="chunks of a streamed answer")
    arguments = made.parse_args()
    kinds = {
        "whole, one chunk": (1, False),
        f"streamed, {arguments.chunks} chunks": (arguments.chunks, True),
    }
    by_kind: dict[str, Any] = {}
    print(common.machine())
    for kind, (chunks, stream) in kinds.items():
        found = asyncio.run(measure(arguments.limit, chunks, stream))
        by_kind[kind] = {name: {"us": us, "more": round(us / found["off"] - 1, 4)} for name, us in found.items()}
        print(kind)
        for name, entry in by_kind[kind].items():
            print(f"  {name:20} {entry['us']:>8.1f} us  {entry['more']:>+7.1%}")
    common.report(arguments, by_kind)


if __name__ == "__main__":
    main()
