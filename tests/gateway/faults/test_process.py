"""`sluicegate serve` as a process: what becomes of its work when it is told to stop, and when it is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.gateway.upstream.servers import ScriptedServer, chunk, running, streams
from tests.waiting import LIMIT_S, until

CHAT = "/v1/chat/completions"
KEY = {"authorization": "Bearer k"}
TURN = [{"role": "user", "content": "Tell me a story."}]
START_S = LIMIT_S
WHOLE = ('"finish_reason":"stop"', "response.completed", "message_stop")
ELSEWHERE = """
[pipeline]
generate = ["upstream"]
[stages.generate.upstream.models.far]
url = "{}"
allow_private = true
"""


@dataclass
class Process:
    """One that is started again on the same port, books and files."""

    folder: Path
    port: int
    running: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [
            sys.executable,
            "-m",
            "sluicegate.gateway.commands.cli",
            "serve",
            "--config",
            str(self.folder / "gateway.toml"),
        ]
        here = str(Path(__file__).parents[3])
        self.running = subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": here})
        until(lambda: self.ready() or self.running.poll() is not None, START_S)
        assert self.running.poll() is None, "the gateway ended while it started"

    def end(self, number: signal.Signals) -> int:
        assert self.running is not None
        self.running.send_signal(number)
        return self.running.wait(60)

    def ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def usage(self) -> dict[str, Any]:
        command = [
            sys.executable,
            "-m",
            "sluicegate.gateway.commands.cli",
            "keys",
            "usage",
            "--format",
            "json",
            "--by",
            "key_id",
        ]
        environ = {**os.environ, "SLUICEGATE_ACCOUNTS__PATH": str(self.folder / "accounts.db")}
        [row] = json.loads(subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout)
        return dict(row)


@contextmanager
def process(folder: Path, more: str = "", lame_duck_s: float = 0) -> Iterator[Process]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        found = Process(folder, int(free.getsockname()[1]))
    (folder / "batches").mkdir()
    (folder / "gateway.toml").write_text(
        f'[server]\nport = {found.port}\nlog_level = "error"\nlame_duck_s = {lame_duck_s}\n{more}\n'
        f'[accounts]\npath = "{folder / "accounts.db"}"\nflush_s = 0.2\n[[keys]]\nid = "a"\nkey = "k"\n'
        f'[batches]\npath = "{folder / "batches"}"\nconcurrency = 2\n',
        "utf-8",
    )
    try:
        found.start()
        yield found
    finally:
        if found.running is not None and found.running.poll() is None:
            found.running.kill()
            found.running.wait(10)


def events(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def test_on_sigterm_open_streams_end_whole_and_the_status_is_zero(tmp_path: Path) -> None:
    """Nobody new is taken meanwhile, and the books have what the stream used."""
    body = {"model": "bundled", "messages": TURN, "max_tokens": 300, "ignore_eos": True, "stream": True}
    asked = {**body, "stream_options": {"include_usage": True}}
    with process(tmp_path) as gateway:
        with httpx.stream("POST", gateway.url + CHAT, json=asked, headers=KEY, timeout=60) as answer:
            coming = answer.iter_lines()
            lines = [next(coming) for _ in range(8)]
            assert gateway.running is not None
            gateway.running.send_signal(signal.SIGTERM)
            until(lambda: not gateway.ready())
            try:
                refused = httpx.post(gateway.url + CHAT, json=body, headers=KEY).status_code
            except httpx.TransportError:
                refused = 0
            lines += coming
        assert refused in (0, 503)
        assert lines[-2:] == ["data: [DONE]", ""]
        told = events(lines)
        assert [c["finish_reason"] for event in told for c in event["choices"] if c["finish_reason"]] == ["length"]
        assert gateway.running.wait(30) == 0
        assert gateway.usage()["completion_tokens"] == told[-1]["usage"]["completion_tokens"] == 300


def test_before_it_stops_it_serves_on_and_tells_balancers_to_go(tmp_path: Path) -> None:
    """`/readyz` says why, a new connection is answered, kept ones are closed after their answer; a second SIGTERM ends
    the phase, long before its time."""
    body = {"model": "bundled", "messages": TURN, "max_tokens": 4}
    with process(tmp_path, lame_duck_s=3600) as gateway, httpx.Client(base_url=gateway.url, headers=KEY) as kept:
        assert kept.post(CHAT, json=body).headers.get("connection") is None
        assert gateway.running is not None
        gateway.running.send_signal(signal.SIGTERM)
        until(lambda: not gateway.ready())
        said = httpx.get(f"{gateway.url}/readyz", headers={"accept": "application/json"})
        assert (said.status_code, said.json()["state"]) == (503, "not ready")
        assert "about to stop" in said.json()["reason"]
        answer = kept.post(CHAT, json=body)
        assert (answer.status_code, answer.headers["connection"]) == (200, "close")
        assert "sluicegate_ready 0.0" in httpx.get(f"{gateway.url}/metrics").text
        assert gateway.running.poll() is None
        assert gateway.end(signal.SIGTERM) == 0
        assert gateway.usage()["requests"] == 2


def test_an_interrupt_skips_that_phase(tmp_path: Path) -> None:
    with process(tmp_path, lame_duck_s=3600) as gateway:
        assert gateway.end(signal.SIGINT) == 0


def test_a_stream_that_outlasts_the_drain_does_not_look_whole(tmp_path: Path) -> None:
    """Its client gets no end mark; what was generated is charged, and the status is still zero."""
    slow = {"model": "bundled", "messages": TURN, "max_tokens": 900, "ignore_eos": True, "stream": True, "n": 8}
    with process(tmp_path, "drain_s = 1") as gateway:
        lines: list[str] = []
        try:
            with httpx.stream("POST", gateway.url + CHAT, json=slow, headers=KEY, timeout=60) as answer:
                coming = answer.iter_lines()
                lines += [next(coming) for _ in range(8)]
                assert gateway.running is not None
                gateway.running.send_signal(signal.SIGTERM)
                lines += coming
        except httpx.RemoteProtocolError:
            lines.append("cut")
        whole = sum(c["finish_reason"] == "length" for e in events(lines) for c in e.get("choices", ())) == 8
        assert whole or lines[-1] == "cut" or any("error" in event for event in events(lines))
        assert gateway.running is not None
        assert gateway.running.wait(30) == 0
        assert gateway.usage()["requests"] == 1


def test_what_outlasts_the_drain_is_told_so_in_its_dialect(tmp_path: Path) -> None:
    """The other server has begun to answer and says no more; no stream ends as if it were whole."""
    far = running(ScriptedServer(streams(chunk("Once "), chunk("upon a time"), chunk("."), pause_s=60.0)))
    bodies: dict[str, dict[str, Any]] = {
        CHAT: {"messages": TURN},
        "/v1/responses": {"input": "Tell me a story."},
        "/v1/messages": {"messages": TURN, "max_tokens": 50},
    }
    with far as url, process(tmp_path, f"drain_s = 0.5\n{ELSEWHERE.format(url)}") as gateway, ExitStack() as open_ones:
        told = {}
        for path, body in bodies.items():
            asked = {"model": "far", "stream": True, **body}
            answer = httpx.stream("POST", gateway.url + path, json=asked, headers=KEY, timeout=60)
            told[path] = open_ones.enter_context(answer).iter_lines()
        lines = {path: until_text(coming) for path, coming in told.items()}
        waiting = open_ones.enter_context(ThreadPoolExecutor(1)).submit(
            httpx.post, gateway.url + CHAT, json={"model": "far", "messages": TURN}, headers=KEY, timeout=60
        )
        until(lambda: b"running 4.0" in httpx.get(f"{gateway.url}/metrics", headers=KEY).content)
        assert gateway.running is not None
        gateway.running.send_signal(signal.SIGTERM)
        for path, coming in told.items():
            lines[path] += coming
            [said] = [json.dumps(event) for event in events(lines[path]) if "shutting down" in json.dumps(event)]
            assert "overloaded" in said
            assert not any(end in "".join(lines[path]) for end in WHOLE), path
        assert lines[CHAT][-2] == "data: [DONE]"
        assert [events(lines[path])[-1]["type"] for path in ("/v1/responses", "/v1/messages")] == ["error", "error"]
        assert (waiting.result().status_code, waiting.result().json()["error"]["code"]) == (503, "overloaded")
        assert gateway.running.wait(30) == 0


def test_who_still_sends_a_body_when_the_gateway_stops_is_told_where_to(tmp_path: Path) -> None:
    """Both a plain body and a form got a 500, with a traceback in the log."""
    lines = "POST {} HTTP/1.1", "host: localhost", "authorization: Bearer k", "content-type: {}", "content-length: 9999"
    head = "\r\n".join([*lines, "expect: 100-continue", "", ""])
    kinds = {
        CHAT: ("application/json", "{"),
        "/v1/files": (
            "multipart/form-data; boundary=b",
            '--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n{',
        ),
    }
    with process(tmp_path, "drain_s = 0.5") as gateway, ExitStack() as open_ones:
        senders = []
        for path, (kind, start) in kinds.items():
            sender = open_ones.enter_context(socket.create_connection(("127.0.0.1", gateway.port), timeout=30))
            sender.sendall(head.format(path, kind).encode())
            assert sender.recv(65536).startswith(b"HTTP/1.1 100")  # it waits for the body
            sender.sendall(start.encode())
            senders.append(sender)
        assert gateway.end(signal.SIGTERM) == 0
        for sender in senders:
            answer = sender.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503")
            assert b"shutting down" in answer


def until_text(coming: Iterator[str]) -> list[str]:
    """Return what came before and with the first text of the story."""
    lines: list[str] = []
    while "Once" not in "".join(lines):
        lines.append(next(coming))
    return lines


def test_a_batch_goes_on_after_kill_9_and_answers_every_line_once(tmp_path: Path) -> None:
    """Killed twice on the way; nothing that was accepted is missing in the books either."""
    lines = [
        {"model": "bundled", "messages": [{"role": "user", "content": f"City {i}?"}], "max_tokens": 40, "seed": i}
        for i in range(60)
    ]
    lines[7] = {**lines[7], "model": "nope"}
    with process(tmp_path) as gateway, httpx.Client(base_url=gateway.url, headers=KEY, timeout=60) as client:
        batch = begun(client, lines)
        for enough in (5, 25):
            until_batch(client, batch, lambda found, n=enough: found["request_counts"]["completed"] >= n)
            gateway.end(signal.SIGKILL)
            gateway.start()
        found = until_batch(client, batch, lambda found: found["status"] == "completed")
        assert found["request_counts"] == {"total": 60, "completed": 59, "failed": 1}
        answered = Counter[str]()
        for file_id in (found["output_file_id"], found["error_file_id"]):
            rows = client.get(f"/v1/files/{file_id}/content").text.splitlines()
            answered.update(json.loads(row)["custom_id"] for row in rows)
        assert answered == Counter({f"line-{i}": 1 for i in range(60)})
        assert gateway.end(signal.SIGTERM) == 0
        booked = gateway.usage()
        assert booked["completion_tokens"] >= found["usage"]["output_tokens"] > 0
        assert booked["prompt_tokens"] >= found["usage"]["input_tokens"] > 0
        assert booked["requests"] >= 59


def begun(client: httpx.Client, bodies: list[dict[str, Any]]) -> str:
    rows = [
        json.dumps({"custom_id": f"line-{i}", "method": "POST", "url": CHAT, "body": body})
        for i, body in enumerate(bodies)
    ]
    sent = {"file": ("in.jsonl", "\n".join(rows).encode())}
    file = client.post("/v1/files", files=sent, data={"purpose": "batch"}).json()["id"]
    asked = {"input_file_id": file, "endpoint": CHAT, "completion_window": "24h"}
    return str(client.post("/v1/batches", json=asked).json()["id"])


def until_batch(client: httpx.Client, batch: str, condition: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def there() -> bool:
        try:
            found.update(client.get(f"/v1/batches/{batch}").json())
        except httpx.TransportError:
            return False
        return bool(condition(found))

    until(there, 120)
    return found
