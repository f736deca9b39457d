"""Bodies that FastAPI checks keep the bounds of every other body, and nothing large is done on the event loop."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.gateway.admin import lint
from sluicegate.gateway.api.body import reader
from sluicegate.gateway.testing import TestApp

ROUTES = (
    ("POST", "/admin/keys"),
    ("POST", "/admin/models"),
    ("PUT", "/admin/rollouts/x"),
    ("POST", "/admin/lint"),
    ("POST", "/admin/rails/try"),
    ("POST", "/v1/feedback"),
    ("POST", "/v1/safety/false_positives"),
    ("POST", "/v1/cache/purge"),
)


@pytest.fixture(scope="module")
def gateway() -> Iterator[TestApp]:
    with TestApp(settings={"server": {"max_values": 50_000}}) as app:
        yield app


def send(gateway: TestApp, method: str, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    answer = gateway.client.request(method, path, json=body)
    return answer.status_code, answer.json()["error"]


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_large_bodies_are_parsed_beside_the_event_loop(
    gateway: TestApp, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def read(body: bytes) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return json.loads(body)  # type: ignore[no-any-return]

    monkeypatch.setattr(reader, "read_json", read)
    status, _ = send(gateway, method, path, {"unknown": "x" * 100_000})
    assert status == 400
    assert len(threads) == 1
    assert threads[0] is not gateway._thread


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_bodies_of_too_many_values_are_refused_before_they_are_parsed(gateway: TestApp, method: str, path: str) -> None:
    status, error = send(gateway, method, path, {"settings": list(range(60_000))})
    assert (status, error["code"]) == (413, "request_too_large")


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_of_many_unknown_names_the_first_is_named(gateway: TestApp, method: str, path: str) -> None:
    """An error was made of each on the event loop: a second for 95,000."""
    status, error = send(gateway, method, path, {f"n{number}": 1 for number in range(40_000)})
    assert (status, error["code"], error["param"]) == (400, "invalid_parameter", "n0")
    assert "`n0` is no field here; known are " in error["message"]


def test_unknown_names_inside_are_named_by_path(gateway: TestApp) -> None:
    _, error = send(gateway, "POST", "/admin/keys", {"id": "a", "limits": {"rpm": 1}})
    assert error["param"] == "limits.rpm"


@pytest.mark.parametrize("body", ["{", "[1]", '{"id": 1, "id": 2}'])
def test_what_is_no_object_is_refused_as_everywhere(gateway: TestApp, body: str) -> None:
    answer = gateway.client.post("/admin/keys", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in ("invalid_json", "duplicate_name")


def test_a_report_of_a_schema_is_written_beside_the_event_loop(
    gateway: TestApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def dumps(found: Any) -> str:
        threads.append(threading.current_thread())
        return json.dumps(found)

    monkeypatch.setattr(lint, "json", type("Json", (), {"dumps": staticmethod(dumps)}))
    assert gateway.client.post("/admin/lint", json={"schema": {"type": "string"}}).json()["serves"] is True
    assert threads[0] is not gateway._thread


def test_the_openapi_document_is_made_once_and_beside_the_event_loop() -> None:
    """It kept all streams waiting for half a second when the first operator opened `/docs`."""
    threads: list[threading.Thread] = []
    app = TestApp()
    made = app.app.openapi

    def openapi() -> dict[str, Any]:
        threads.append(threading.current_thread())
        return made()

    app.app.openapi = openapi  # type: ignore[method-assign]
    with app:
        first, second = app.client.get("/openapi.json"), app.client.get("/openapi.json")
    assert first.json()["paths"]
    assert first.content == second.content
    assert len(threads) == 1
    assert threads[0] is not app._thread
