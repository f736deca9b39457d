"""CPU of a request in two checkouts of the gateway, by turns in one run, over sockets.

    git worktree add ../before main
    python -m benchmarks.trees ../before . --limit 100 [--upstream] [--stream]

Each tree serves what `benchmarks.peers` serves (keys, limits with a journal, three rails, metrics, traces, history). A
slice is a few requests over one kept connection, and a pair is one slice of each tree, in changing order: what else the
machine does meets both. CPU is that of the whole process, all threads, read from its own clock. With one tree named
twice, the ratio says how far to trust the others.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.common import machine, report
from benchmarks.peers import CHUNKS, KEY, harness_parser, refuse_missing, started

PROMPT = "Tell me about the rivers that flow into the Black Sea, in a few sentences. " * 4
SETTLE_S = 3.0
"""The gateway moves its memory two seconds after its start."""


class Served:
    """A gateway of one tree, and the connection to it."""

    def __init__(self, tree: Path, python: str, port: int, pid: int, ask: bytes) -> None:
        self.tree = tree
        self.python = python
        self._clock = ~pid << 3 | 2  # what clock_getcpuclockid(3) returns: all threads of that process
        self._ask = ask
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.found_us: list[float] = []

    def slice(self, count: int) -> float:
        """Return the microseconds of CPU a request of `count` requests."""
        began = time.clock_gettime_ns(self._clock)
        for _ in range(count):
            self._request()
        return (time.clock_gettime_ns(self._clock) - began) / 1e3 / count

    def _request(self) -> None:
        self._socket.sendall(self._ask)
        read = b""
        while not _is_whole(read):
            piece = self._socket.recv(1 << 18)
            if not piece:
                raise SystemExit(f"{self.tree} hung up: {read[:300]!r}")
            read += piece
        if not read.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"{self.tree} answered {read[:600]!r}")


def _is_whole(read: bytes) -> bool:
    head, found, body = read.partition(b"\r\n\r\n")
    if not found:
        return False
    _, named, length = head.partition(b"content-length: ")
    return len(body) >= int(length.partition(b"\r")[0]) if named else body.endswith(b"0\r\n\r\n")


def main() -> None:
    parser = harness_parser(__doc__, 100, "pairs of slices")
    parser.add_argument("trees", nargs="*", type=Path, help="one or two checkouts; none: this one by turns with itself")
    parser.add_argument("--pythons", nargs="+", default=[sys.executable], help="one for all trees, or one for each")
    parser.add_argument("--requests", type=int, default=20, help="of each slice")
    parser.add_argument(
        "--upstream", action="store_true", help="ask a mock server in place of answering in the process"
    )
    parser.add_argument("--stream", action="store_true", help=f"streams of {CHUNKS} chunks")
    given = parser.parse_args()
    refuse_missing(given.data, "mock_upstream.py")
    given.trees = given.trees or [Path(__file__).resolve().parent.parent] * 2
    running: list[subprocess.Popen[bytes]] = []
    try:
        served = _serve(running, given)
        _measure(served, given.limit, given.requests)
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):  # it ended by itself
                os.killpg(process.pid, signal.SIGTERM)
            process.wait(20)
    _report(served)
    report(given, {"slices_us": [{"tree": str(one.tree), "us": one.found_us} for one in served]})


def _serve(running: list[subprocess.Popen[bytes]], given: argparse.Namespace) -> list[Served]:
    mock = started(running, [sys.executable, str(given.data / "mock_upstream.py"), "--port", "{port}"], "/healthz")
    ask = _request(given.stream)
    found = []
    for at, tree in enumerate(given.trees):
        python = given.pythons[at % len(given.pythons)]
        kind = "upstream" if given.upstream else "here"
        run = ["-m", "benchmarks.peers", "--serve", kind, "--port", "{port}", "--mock", str(mock)]
        in_tree = ["env", "-C", str(tree.resolve()), f"PYTHONPATH={_path(tree)}"]
        port = started(running, [*in_tree, python, *run], "/readyz")
        found.append((tree, python, port, running[-1].pid))
    # Only now: a connection that sends nothing while another gateway starts is closed.
    return [Served(*one, ask) for one in found]


def _path(tree: Path) -> str:
    return os.pathsep.join([str(tree.resolve()), *filter(None, [os.environ.get("PYTHONPATH_MORE")])])


def _request(stream: bool) -> bytes:
    asked = {"model": "mock", "messages": [{"role": "user", "content": PROMPT}], "stream": stream}
    body = json.dumps(asked).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {KEY}\r\n"
    return f"{head}content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def _measure(served: list[Served], pairs: int, requests: int) -> None:
    until = time.monotonic() + SETTLE_S
    while time.monotonic() < until:
        for one in served:
            one.slice(requests)
    for at in range(pairs):
        for one in served if at % 2 else reversed(served):
            one.found_us.append(one.slice(requests))


def _report(served: list[Served]) -> None:
    print(machine())
    for one in served:
        found = sorted(one.found_us)
        least, tenth, median = found[0], found[len(found) // 10], statistics.median(found)
        mean = statistics.mean(found)  # sees what threads do once a second
        print(
            f"{one.tree!s:20} least {least:5.0f} p10 {tenth:5.0f} median {median:5.0f} mean {mean:5.0f} us {one.python}"
        )
    if len(served) == 2:
        ratios = [after / before for before, after in zip(served[0].found_us, served[1].found_us, strict=True)]
        # The interval of a median, in ranks: binomial, 95 %.
        ratios.sort()
        spread = round(0.98 * math.sqrt(len(ratios)))
        middle = len(ratios) // 2
        low, high = ratios[max(0, middle - spread)], ratios[min(len(ratios) - 1, middle + spread)]
        print(f"second / first: {statistics.median(ratios):.3f}, 95 % between {low:.3f} and {high:.3f}")


if __name__ == "__main__":
    main()
