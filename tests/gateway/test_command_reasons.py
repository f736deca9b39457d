"""Commands that ask a gateway and get no answer: one line that says why, in words and not as the name of a class."""

from __future__ import annotations

import contextlib
import http.server
import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.testing import TestApp

CLASS_NAME = re.compile(r"\b[A-Z]\w+(Error|Exception|Timeout|Refused|URL)\b")
UNKNOWN = json.dumps({"error": {"message": "the API key is not known here", "code": "invalid_api_key"}}).encode()
COMMANDS = {
    "bench": ["bench", "URL"],
    "eval": ["eval", "SUITE", "--url", "URL"],
    "replay": ["replay", "--url", "URL"],
    "redteam": ["redteam", "--regressions", "--url", "URL"],
    "cache": ["cache", "stats", "--url", "URL"],
    "safety": ["safety", "tune", "--folder", "FOLDER", "--url", "URL"],
}
SUITE = '[[case]]\nid = "one"\nprompt = "Hello"\nexpected = "Hello"\n'


class Answering(http.server.BaseHTTPRequestHandler):
    status, body = 200, b""

    def do_GET(self) -> None:
        if not self.status:
            return  # the connection ends without a word
        self.send_response(self.status)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    do_POST = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@contextlib.contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """Run a server that answers everything so, and yield its address. With status 0 it closes the connection."""
    handler = type("Handler", (Answering,), {"status": status, "body": body})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def nobody() -> Iterator[str]:
    with socket.socket() as taken:  # bound, so that nobody else takes it, and not listening
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


PLACES: dict[str, tuple[Callable[[], AbstractContextManager[str]], str]] = {
    "nobody": (nobody, "nobody answers there"),
    "unknown key": (lambda: answering(401, UNKNOWN), "401 the API key is not known here"),
    "another site": (lambda: answering(200, b"<html>Welcome</html>"), "not that of a gateway"),
    "another shape": (lambda: answering(200, b'{"data": 5}'), "not that of a gateway"),
    "a closed door": (lambda: answering(0, b""), "the connection broke"),
    "no address": (lambda: contextlib.nullcontext("gateway:8000"), "no address of a gateway"),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_gateway_that_does_not_answer_is_told_in_words(
    command: str, place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if (command, place) == ("cache", "another shape"):
        pytest.skip("whatever is JSON is printed")
    opened, words = PLACES[place]
    suite = tmp_path / "suite.toml"
    suite.write_text(SUITE)
    with opened() as url:
        given = {"URL": url, "SUITE": str(suite), "FOLDER": str(tmp_path)}
        status = main([given.get(word, word) for word in COMMANDS[command]])
    told = capsys.readouterr().err
    assert status == 2, told
    assert words in told
    assert not CLASS_NAME.search(told)


@pytest.mark.parametrize("key", [None, "sk-wrong"])
def test_a_bench_without_a_known_key_says_where_to_set_one(
    key: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLUICEGATE_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("SLUICEGATE_API_KEY", key)
    with TestApp(keys=[{"id": "a", "key": "sk-a"}], pipeline={"admit": ["api-keys"]}) as app:
        assert main(["bench", app.url]) == 2
    told = capsys.readouterr().err
    assert "401" in told
    assert "SLUICEGATE_API_KEY" in told


def test_a_bench_with_a_batch_says_what_the_gateway_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    with TestApp() as app:
        arguments = ["--requests", "1", "--concurrency", "1", "--overload", "1", "--capacity", "1", "--seconds", "0.1"]
        assert main(["bench", app.url, "--free", *arguments, "--batch-lines", "2"]) == 2
    told = capsys.readouterr().err
    assert "the batch could not be handed in" in told
    assert "set [batches] path" in told
    assert not CLASS_NAME.search(told)


def test_a_level_of_a_bench_counts_its_failures_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(0, b"") as url:
        arguments = ["--model", "m", "--requests", "2", "--concurrency", "1", "--free"]
        assert main(["bench", url, *arguments]) == 1
    told = capsys.readouterr().out
    assert "2 x the connection broke" in told
    assert not CLASS_NAME.search(told)
