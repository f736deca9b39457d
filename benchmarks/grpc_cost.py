"""Compare gRPC with server-sent events: CPU of the gateway for a request, and for each chunk of a stream.

    python -m benchmarks.grpc_cost --limit 400
    python -m benchmarks.grpc_cost --limit 40 --delay-ms 5

One gateway in a process of its own speaks both over sockets, with two rails and metrics on. A scripted model answers at
once, or waits before each chunk. The clients' work is not counted: the gateway's CPU time is read from the kernel
before and after each round, and rounds of all kinds alternate, so that a busy machine disturbs all alike. A chunk's
cost is the difference between streams of 64 and of 1 chunks, divided by 63.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable

import grpc
import httpx

from benchmarks import common
from sluicegate.gateway.grpc.messages import GenerateRequest, Message, StreamEvent

CHUNKS = 64
ROUNDS = 7
TICK_S = 1 / os.sysconf("SC_CLK_TCK")
SERVICE = "/sluicegate.v1.Sluicegate"
GATEWAY = """
import sys, time
from benchmarks.gateway import PIPELINE, STAGES, WORDS
from sluicegate.gateway.testing import TestApp
delay_s = float(sys.argv[1])
script = lambda job: [WORDS[i % len(WORDS)] for i in range(int(job.request.user))]
asked = {**PIPELINE, "recall": []}
tables = {"grpc": {"enabled": True, "port": 0}}
with TestApp(pipeline=asked, stages=STAGES, script=script, delay_s=delay_s, settings=tables) as app:
    print(app.url, app.runtime.progress.grpc, flush=True)
    sys.stdin.read()
"""


def cpu_s(pid: int) -> float:
    """Return user and system time of a process with all its threads."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def askers(url: str, address: str) -> dict[str, Callable[[int], None]]:
    """Name -> what asks once for an answer of so many chunks, over a connection that is kept."""
    http, channel = httpx.Client(base_url=url), grpc.insecure_channel(address)
    whole = channel.unary_unary(f"{SERVICE}/Generate", GenerateRequest.SerializeToString)
    stream = channel.unary_stream(f"{SERVICE}/Stream", GenerateRequest.SerializeToString)

    def body(chunks: int, *, streamed: bool) -> dict[str, object]:
        messages = [{"role": "user", "content": "Where is it?"}]
        return {"model": "scripted", "messages": messages, "user": str(chunks), "stream": streamed}

    def message(chunks: int) -> GenerateRequest:
        asked = Message(role="user", content="Where is it?")
        return GenerateRequest(model="scripted", messages=[asked], user=str(chunks))

    def over_sse(chunks: int) -> None:
        with http.stream("POST", "/v1/chat/completions", json=body(chunks, streamed=True)) as answer:
            assert sum(raw.count(b"data: ") for raw in answer.iter_raw()) >= chunks

    def over_http(chunks: int) -> None:
        assert http.post("/v1/chat/completions", json=body(chunks, streamed=False)).status_code == 200

    def over_grpc(chunks: int) -> None:
        assert sum(len(StreamEvent.FromString(event).deltas) for event in stream(message(chunks))) >= chunks

    def whole_grpc(chunks: int) -> None:
        assert whole(message(chunks))

    return {"HTTP, SSE": over_sse, "gRPC, stream": over_grpc, "HTTP, whole": over_http, "gRPC, whole": whole_grpc}


def measure(requests: int, delay_s: float) -> dict[str, dict[str, float]]:
    """Return microseconds of CPU: medians of alternating rounds, of which the first is not counted."""
    command = [sys.executable, "-c", GATEWAY, str(delay_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdout is not None
        assert gateway.stdin is not None
        ask = askers(*gateway.stdout.readline().split())
        kinds = [(name, chunks) for name in ask for chunks in (1, CHUNKS)]
        found: dict[tuple[str, int], list[float]] = {kind: [] for kind in kinds}
        for _ in range(ROUNDS + 1):
            for name, chunks in kinds:
                began = cpu_s(gateway.pid)
                for _ in range(requests):
                    ask[name](chunks)
                found[name, chunks].append((cpu_s(gateway.pid) - began) / requests * 1e6)
        gateway.stdin.close()
    one = {kind: statistics.median(values[1:]) for kind, values in found.items()}
    return {
        name: {"request": one[name, 1], "of 64": one[name, CHUNKS], "chunk": (one[name, CHUNKS] - one[name, 1]) / 63}
        for name in ask
    }


def main() -> None:
    made = common.parser(__doc__, None, 400, "requests of each kind in a round")
    made.add_argument("--delay-ms", type=float, default=0.0, help="between chunks; without, they are ready at once")
    arguments = made.parse_args()
    print(common.machine())
    found = measure(arguments.limit, arguments.delay_ms / 1000)
    print(f"{'':14}{'request of 1 chunk':>20}{'of 64 chunks':>16}{'each chunk':>14}")
    for name, us in found.items():
        print(f"{name:14}{us['request']:>17.0f} us{us['of 64']:>13.0f} us{us['chunk']:>11.1f} us")
    common.report(arguments, found)


if __name__ == "__main__":
    main()
