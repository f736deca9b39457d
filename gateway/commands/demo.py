"""`sluicegate demo`: the main job once, on a real server, with every step shown.

A gateway is started as its own process on a free loopback port, a document and a schema are POSTed to it, the answer is
streamed to the terminal as it is cleared, and the story of the request is printed. Then the gateway is stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
import orjson

DOCUMENT = """\
From: Renske Oudijk <renske.oudijk@tidewater-marine.example>
Subject: Invoice TM-40917

Dear team,

please find below the details of our invoice TM-40917, issued on 14 March 2026.
The supplier is Tidewater Marine Supply. The customer is Kestrel Boatworks.
The total is 1,284.50 EUR and it is not paid.

Kind regards,
Renske Oudijk
"""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "invoice_number": {"type": "string"},
        "supplier": {"type": "string"},
        "customer": {"type": "string"},
        "issue_date": {"type": "string", "format": "date"},
        "total": {"type": "number", "minimum": 0},
        "currency": {"enum": ["EUR", "USD", "GBP"]},
        "paid": {"type": "boolean"},
    },
    "required": ["invoice_number", "supplier", "customer", "issue_date", "total", "currency", "paid"],
    "additionalProperties": False,
}
START_LIMIT_S = 900.0
"""The first start compiles for 40 s of processor time, which may take many times as long on a busy machine."""
TOLD_AFTER_S = 15.0


def define(parser: argparse.ArgumentParser) -> None:
    """Say what `demo` runs; it takes no arguments."""
    parser.set_defaults(run=_demo)


def _demo(parsed: argparse.Namespace) -> int:
    started = time.perf_counter()
    with _gateway() as url:
        print(f"gateway ready on {url} after {time.perf_counter() - started:.1f} s (model: bundled, one process)\n")
        print(_indented(DOCUMENT), end="\n\n")
        text, last = _streamed(url)
        _print_answer(text)
        _print_story(last)
    print("gateway stopped")
    return 0


@contextmanager
def _gateway() -> Iterator[str]:
    """Run a gateway in a process of its own on a free port and yield its URL. Its log is shown if it does not come
    up."""
    port = _free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryFile("w+") as log:
        command = [sys.executable, "-m", "sluicegate.gateway.commands.cli", "serve", "--port", str(port)]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("SLUICEGATE_")}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environ)
        try:
            if not _wait_until_ready(url, process):
                log.seek(0)
                raise SystemExit(f"the gateway did not start; its log:\n{log.read()}")
            yield url
        finally:
            process.terminate()
            process.wait(timeout=30)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    began, told = time.monotonic(), False
    while (waited_s := time.monotonic() - began) < START_LIMIT_S and process.poll() is None:
        if waited_s > TOLD_AFTER_S and not told:
            print(
                "starting; the first start on a machine compiles loops, for about a minute", file=sys.stderr, flush=True
            )
            told = True
        try:
            if httpx.get(f"{url}/readyz").status_code == 200:
                return True
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    return False


def _streamed(url: str) -> tuple[str, Mapping[str, Any]]:
    """Post the example and print each piece of the answer as it arrives. Return the whole text and the last chunk."""
    body = {
        "model": "bundled",
        "messages": [
            {"role": "system", "content": "Extract the fields from the document."},
            {"role": "user", "content": DOCUMENT},
        ],
        "response_format": {"type": "json_schema", "json_schema": {"name": "invoice", "schema": SCHEMA}},
        "stream": True,
        "stream_options": {"include_usage": True},
        "sluicegate": {"explain": True},
    }
    print("POST /v1/chat/completions with a JSON schema; the answer, as it streams:\n\n  ", end="")
    pieces: list[str] = []
    last: Mapping[str, Any] = {}
    with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=60) as answer:
        for line in answer.iter_lines():
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            last = orjson.loads(line[len("data: ") :])
            if "error" in last:
                raise SystemExit(f"the gateway answered with an error: {last['error']['message']}")
            for choice in last["choices"]:
                piece = choice["delta"].get("content", "")
                pieces.append(piece)
                print(piece, end="", flush=True)
    print("\n")
    return "".join(pieces), last


def _print_answer(text: str) -> None:
    print("parsed:\n" + _indented(json.dumps(json.loads(text), indent=2, ensure_ascii=False)), end="\n\n")


def _print_story(last: Mapping[str, Any]) -> None:
    print("what each stage decided, and how long it took:\n")
    for stage in last["sluicegate"]["stages"]:
        print(f"  {stage['slot']:10} {stage['stage']:15} {stage['outcome']:24} {stage['ms']:9.2f} ms")
    counted = last["usage"]
    print(f"\n{counted['prompt_tokens']} prompt tokens, {counted['completion_tokens']} completion tokens")


def _indented(text: str) -> str:
    return "\n".join(f"  {line}".rstrip() for line in text.rstrip().splitlines())
