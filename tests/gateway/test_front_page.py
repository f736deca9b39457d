"""`/`, and what lists print."""

from __future__ import annotations

import pytest
from starlette.testclient import TestClient

from sluicegate.gateway.app import create_app
from sluicegate.gateway.commands.tables import date, table
from sluicegate.gateway.settings import KeySettings, Settings
from sluicegate.gateway.testing import TestApp


@pytest.mark.parametrize("keys", [(), (KeySettings(id="billing", key="k" * 40),)], ids=["open", "keyed"])
def test_the_front_page_says_where_things_are_and_nothing_else(keys: tuple[KeySettings, ...]) -> None:
    """JSON, or a page for who asks for one; without a key, and without a word on models or keys."""
    client = TestClient(create_app(Settings(keys=keys), {}), base_url="http://127.0.0.1")
    plain, page = client.get("/"), client.get("/", headers={"accept": "text/html,*/*"})
    assert (plain.status_code, page.status_code) == (200, 200)
    assert page.headers["content-type"].startswith("text/html")
    for place in ("/v1", "/docs", "/console", "/metrics"):
        assert place in plain.json().values()
        assert place in page.text
    assert "bundled" not in plain.text + page.text
    assert "billing" not in plain.text + page.text


def test_a_table_aligns_its_columns_and_dates_can_be_read() -> None:
    assert table(("id", "used"), [("a", 5), ("long", 12), ("", 1)]).splitlines() == [
        "id    used",
        "a        5",
        "long    12",
        "-        1",
    ]
    assert date(0.0) == "1970-01-01 00:00"
    assert date(None) == ""


@pytest.mark.parametrize("path", ["/", "/healthz", "/metrics", "/v1/models", "/openapi.json", "/docs", "/console"])
def test_what_can_be_read_can_be_asked_about(path: str) -> None:
    """Monitors and link checkers send HEAD."""
    client = TestClient(create_app(Settings(), {}), base_url="http://127.0.0.1")
    assert (client.get(path).status_code, client.head(path).status_code) == (200, 200)


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/v1/models/scripted", "/console", "/docs"])
def test_a_slash_at_the_end_is_passed_over(path: str) -> None:
    with TestApp() as app:
        answer = app.client.get(f"{path}/", follow_redirects=False)
        assert answer.status_code == app.client.get(path).status_code == 200


def test_a_slash_at_the_end_opens_no_door() -> None:
    """Keys, limits and operators' doors hold for the address as it is served."""
    with TestApp(keys=[{"id": "billing", "key": "k" * 40}], pipeline={"admit": ["api-keys", "limits"]}) as app:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
        assert app.client.post("/v1/chat/completions/", json=body).status_code == 401
        for path in ("/v1/models/", "/admin/keys/"):
            assert app.client.get(path).status_code == 401, path
        assert app.client.get("/v1/models//").status_code in (401, 404)
