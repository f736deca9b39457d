"""Compare the gateway's own cost with peers': CPU of a request and of a streamed chunk, in one run.

Everything is on: keys, limits with a journal, rails on requests and answers, metrics. Two rows are
ours: `ours` answers in the process itself (what the gateway costs without any model), `ours-upstream` asks the same
mock server that the peers ask. The load generator and the mock server are those of `--data`. LiteLLM runs from an
environment of its own (`python -m venv V; V/bin/pip install 'litellm[proxy]'`, then `--litellm V/bin/litellm`), Portkey
from a folder (`npm install @portkey-ai/gateway`, then `--portkey FOLDER/node_modules/@portkey-ai/gateway`). LiteLLM
checks one master key; Portkey passes requests on and has nothing else to do.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

from benchmarks.common import Parser, machine, parser, report
from sluicegate.plugins import Generation, Job, Piece, RegistryLike, ServedModel, Timeline, Usage
from sluicegate.plugins.testing import Unconstrained
from sluicegate.plugins.testing.doubles import FakeModel

BENCH = Path(__file__).resolve().parent.parent.parent / "shared" / "bench" / "gateway"
KEY = "sk-bench-key"
CHUNKS = 64
NAMES = ("mock", f"mock-c{CHUNKS}-d0", f"mock-c{CHUNKS}-d5")
LETTERS = bytes.maketrans(b"0123456789", b"abcdefghij")


class InstantGenerator:
    """Slot `generate`: answers at once. Each chunk of a stream carries its creation time, as the mock server's does."""

    def __init__(self) -> None:
        self._models: dict[str, ServedModel] = {name: FakeModel(name) for name in NAMES}

    @property
    def models(self) -> Mapping[str, ServedModel]:
        return self._models

    async def generate(self, job: Job) -> Generation:
        return InstantAnswer(job)

    def stats(self) -> Mapping[str, float]:
        return {"requests_running": 0.0, "requests_waiting": 0.0, "kv_cache_usage_ratio": 0.0}


class InstantAnswer:
    def __init__(self, job: Job) -> None:
        self._stream = job.request is not None and job.request.stream
        self.usage = Usage(100, CHUNKS)
        self.timeline: Timeline | None = None

    async def begin(self) -> None:
        """Return at once: there is no request to read."""

    async def __aiter__(self) -> AsyncIterator[Piece]:
        for _ in range(CHUNKS if self._stream else 0):
            stamp = str(time.monotonic_ns()).encode().translate(LETTERS).decode()
            yield Piece(0, f" t={stamp};")
        yield Piece(0, "" if self._stream else "word " * 64, finish_reason="stop")

    def cancel(self) -> None:
        """Return at once: nothing is running."""


def register(registry: RegistryLike) -> None:
    registry.add("generate", "here", lambda settings: InstantGenerator())
    registry.add("constrain", "unconstrained", lambda settings: Unconstrained())


def main() -> None:
    if served := _asked_to_serve():
        serve(served.serve, served.port, served.mock)
        return
    made = harness_parser(__doc__, 3, "rounds")
    made.add_argument("--litellm", type=Path, help="the command `litellm` of its own environment")
    made.add_argument("--portkey", type=Path, help="the folder of its package")
    made.add_argument("--slice", type=float, default=2.0, help="seconds for each target and round")
    given = made.parse_args()
    refuse_missing(given.data, "mock_upstream.py", "load.py")
    report(given, {"rows": compare(given)})


def _asked_to_serve() -> argparse.Namespace | None:
    """Return the options of a process that serves one side. It may run in another checkout, beside which no harness
    lies."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument("--serve", choices=("here", "upstream"))
    made.add_argument("--port", type=int)
    made.add_argument("--mock", type=int)
    given, _ = made.parse_known_args()
    return given if given.serve else None


def refuse_missing(folder: Path, *names: str) -> None:
    """End with one line if the harness lacks a file."""
    if missing := [name for name in names if not (folder / name).exists()]:
        raise SystemExit(f"{folder} holds no {' and no '.join(missing)}; name the harness's folder with --data")


def harness_parser(description: str | None, limit: int, counts: str) -> Parser:
    return parser(description, BENCH, limit, counts, form="folder with mock_upstream.py and load.py", endless=True)


def compare(given: argparse.Namespace) -> list[Any]:
    """Measure all targets, and return the rows of the load generator."""
    print(machine())
    running: list[subprocess.Popen[bytes]] = []
    try:
        mock = started(running, [sys.executable, str(given.data / "mock_upstream.py"), "--port", "{port}"], "/healthz")
        targets = []
        for name, kind in (("ours", "here"), ("ours-upstream", "upstream")):
            command = [
                sys.executable,
                "-m",
                "benchmarks.peers",
                "--serve",
                kind,
                "--port",
                "{port}",
                "--mock",
                str(mock),
            ]
            port = started(running, command, "/readyz")
            targets += ["--target", f"{name}=http://127.0.0.1:{port}/v1,pid={running[-1].pid},key={KEY}"]
        if given.litellm:
            port = started(running, litellm_command(given.litellm, mock), "/health/liveliness")
            targets += ["--target", f"litellm=http://127.0.0.1:{port}/v1,pid={running[-1].pid},key={KEY}"]
        rows = load(given, mock, targets, "--no-plain", "--stream", "--stream-conc", "1,16")
        if given.portkey:
            targets += portkey_target(running, given.portkey, mock)
        return rows + load(given, mock, targets, "--conc", "1,16")
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)


def load(given: argparse.Namespace, mock: int, targets: list[str], *kinds: str) -> list[Any]:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, str(given.data / "load.py"), "--direct", f"http://127.0.0.1:{mock}/v1", *targets]
        command += [*kinds, "--out", out.name]
        command += ["--rounds", str(given.limit), "--slice", str(given.slice), "--warmup", "1"]
        subprocess.run(command, check=True)
        rows: list[Any] = json.load(out)["rows"]
        return rows


def portkey_target(running: list[subprocess.Popen[bytes]], folder: Path, mock: int) -> list[str]:
    """Start Portkey, and return its target. It serves whole answers only: its version 1.15.2 fails on every stream of
    the mock server (Node 20)."""
    command = ["node", str(folder / "build" / "start-server.js"), "--port={port}", "--headless"]
    port = started(running, command, "/")
    where = quote(f"http://127.0.0.1:{mock}/v1", safe="")
    headers = f"header=x-portkey-provider:openai,header=x-portkey-custom-host:{where}"
    return ["--target", f"portkey=http://127.0.0.1:{port}/v1,pid={running[-1].pid},key={KEY},{headers}"]


def started(running: list[subprocess.Popen[bytes]], command: list[str], path: str) -> int:
    """Start a program, wait until `path` answers, and return the port that it listens on."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    command = [part.replace("{port}", str(port)) for part in command]
    running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=sys.stderr, start_new_session=True))
    for _ in range(1200):
        if (status := running[-1].poll()) is not None:
            raise SystemExit(f"ended with {status} before it answered: {' '.join(command)}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2):
                return port
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise SystemExit(f"did not start: {' '.join(command)}")


def litellm_command(litellm: Path, mock: int) -> list[str]:
    api = {"api_base": f"http://127.0.0.1:{mock}/v1", "api_key": "none"}
    models = [{"model_name": name, "litellm_params": {"model": f"openai/{name}", **api}} for name in NAMES]
    config: dict[str, Any] = {"model_list": models, "general_settings": {"master_key": KEY}}
    path = Path(tempfile.mkdtemp()) / "litellm.yaml"
    path.write_text(json.dumps(config), "utf-8")  # JSON is YAML
    return [str(litellm), "--config", str(path), "--port", "{port}", "--host", "127.0.0.1"]


def serve(kind: str, port: int, mock: int) -> None:
    """Serve a gateway with everything on."""
    from sluicegate.gateway.compose import compose
    from sluicegate.gateway.config import load as load_settings
    from sluicegate.gateway.server import serve_runtime

    far = {name: {"url": f"http://127.0.0.1:{mock}/v1", "allow_private": True} for name in NAMES}
    limits = {"requests_per_minute": 10**9, "tokens_per_minute": 10**12, "concurrency": 10_000, "budget_day": 1e6}
    overrides: dict[str, Any] = {
        "server": {"port": port},
        "keys": [{"id": "bench", "key": KEY, "limits": limits}],
        "accounts": {"path": str(Path(tempfile.mkdtemp()) / "accounts.db"), "prices": {"*": {"input": 1, "output": 2}}},
        "pipeline": {
            "generate": [kind],
            "constrain": ["unconstrained" if kind == "here" else "grammar"],
            "screen": ["secrets"],
            "moderate": ["secrets", "blocklist"],
            "record": ["ledger", "metrics"],
        },
        "stages": {
            "generate": {"upstream": {"models": far}} if kind == "upstream" else {},
            "moderate": {"blocklist": {"phrases": ["project nightingale"], "action": "block"}},
        },
    }
    settings = load_settings(overrides=overrides)
    serve_runtime(compose(settings, {}, registers=(register,)))


if __name__ == "__main__":
    main()
