"""A real Phoenix receives the traces of a real gateway and shows them as LLM traces.

Phoenix has pins of its own, so it wants an environment of its own: `python -m venv phx && phx/bin/pip install
arize-phoenix`, then `PHOENIX_BIN=phx/bin/phoenix`.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.conftest import running
from tests.waiting import LIMIT_S

PHOENIX = os.environ.get("PHOENIX_BIN") or shutil.which("phoenix")
pytestmark = pytest.mark.skipif(PHOENIX is None, reason="no Phoenix: pip install arize-phoenix, and set PHOENIX_BIN")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
BODY = {
    "model": "bundled",
    "messages": [{"role": "user", "content": "Clara Winther lives in Aarhus."}],
    "response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture(scope="module")
def phoenix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    environ = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PHOENIX_WORKING_DIR": str(tmp_path_factory.mktemp("phoenix")),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(free_port()),
        "PHOENIX_TELEMETRY_ENABLED": "false",
    }
    quiet = subprocess.DEVNULL
    process = subprocess.Popen([str(PHOENIX), "serve"], env=environ, stdout=quiet, stderr=quiet, cwd=Path("/"))
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: httpx.get(f"{url}/healthz", timeout=2).status_code == 200, LIMIT_S)
        yield url
    finally:
        process.terminate()
        process.wait(30)


def wait_for(condition: Any, limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while True:
        try:
            if condition():
                return
        except httpx.HTTPError:
            pass
        assert time.monotonic() < deadline, "Phoenix did not get there in time"
        time.sleep(0.2)


def test_phoenix_shows_a_request_as_an_llm_call_with_guardrails(phoenix: str) -> None:
    environ = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{phoenix}/v1/traces"}
    with running({"telemetry": {"content": True}}, environ=environ) as gateway:
        assert httpx.post(f"{gateway.url}/v1/chat/completions", json=BODY).status_code == 200

    def spans() -> list[dict[str, Any]]:
        answer = httpx.get(f"{phoenix}/v1/projects/default/spans", params={"limit": 100}, timeout=20)
        return list(answer.json().get("data", []))

    wait_for(lambda: len(spans()) >= 12, 60)
    found = {span["name"]: span for span in spans()}
    root = found["chat bundled"]
    assert root["span_kind"] == "LLM"
    assert root["attributes"]["llm.token_count.completion"] > 0
    assert "Aarhus" in str(root["attributes"]["llm.input_messages.0.message.content"])
    assert found["run_guardrail secrets"]["span_kind"] == "GUARDRAIL"
    assert found["decode"]["parent_id"] == found["generate deliver"]["context"]["span_id"]
    assert {span["context"]["trace_id"] for span in found.values()} == {root["context"]["trace_id"]}
