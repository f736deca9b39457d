"""The OpenAPI document says what the gateway does: random requests find no 5xx and no answer that it does not name."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.dialect import Dialect
from sluicegate.gateway.api.openapi.document import operations
from tests.gateway.conftest import RunningGateway, running

schemathesis = pytest.importorskip("schemathesis", reason="pip install schemathesis")

OPERATIONS = operations(DIALECTS)
EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", "6"))
"""For each operation. A long run: SCHEMATHESIS_EXAMPLES=300 pytest tests/gateway/test_openapi.py"""
MOST_TOKENS = 4


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("openapi")
    with running({"batches": {"path": str(folder / "batches")}, "accounts": {"journal": str(folder)}}) as found:
        yield found


@pytest.fixture(scope="module")
def api(served: RunningGateway) -> Any:
    return schemathesis.openapi.from_url(f"{served.url}/openapi.json")


def cheap(body: Any) -> Any:
    """Make a random body cheap. Random bodies name no model and ask for thousands of tokens: most shall be answered,
    and soon."""
    if isinstance(body, dict) and isinstance(body.get("model"), str):
        body = {**body, "model": "bundled"}
        for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
            if isinstance(body.get(name), int) and body[name] > MOST_TOKENS:
                body[name] = MOST_TOKENS
        if isinstance(body.get("n"), int):
            body["n"] = min(body["n"], 2)
        body.pop("ignore_eos", None)
    return body


def checks() -> list[Any]:
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks as conformance

    told = ("status_code_conformance", "content_type_conformance", "response_schema_conformance")
    return [not_a_server_error, *(getattr(conformance, name) for name in told)]


@pytest.mark.filterwarnings("ignore:Do not use the .random. module")  # the gateway does, in a thread beside
@pytest.mark.parametrize(("method", "path"), [key for key in OPERATIONS if key[1] != "/metrics"])
def test_no_5xx_and_no_answer_that_the_document_does_not_name(api: Any, method: str, path: str) -> None:
    """Schemathesis' own pytest plug-in is not needed: what it tries and checks is."""

    @given(case=api[path][method].as_strategy())
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def one(case: Any) -> None:
        case.body = cheap(case.body)
        case.call_and_validate(checks=checks(), timeout=60)

    one()


# --- what the document holds ------------------------------------------------------------------------------------------


def test_every_operation_outside_admin_is_described(served: RunningGateway) -> None:
    """With a summary, a tag, and a schema for what it takes and answers."""
    document = httpx.get(f"{served.url}/openapi.json").json()
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert {"400", "401", "500"} <= set(operation["responses"]) or not path.startswith("/v1"), (method, path)
            assert "422" not in operation["responses"]
    named = {(method, path) for path, methods in document["paths"].items() for method in methods}
    assert set(OPERATIONS) <= named
    assert not {reference for reference in _references(document) if reference not in document["components"]["schemas"]}


def _references(document: Any) -> set[str]:
    return set(re.findall(r"#/components/schemas/([^'\"]+)", repr(document)))


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.name)
def test_the_examples_of_the_document_work(served: RunningGateway, dialect: Dialect) -> None:
    answer = httpx.post(served.url + dialect.path, json=dialect.example, timeout=60)
    assert answer.status_code == 200
    assert "Aarhus" in answer.text or "Aarhus" not in str(dialect.example)


def test_the_page_fetches_nothing_from_elsewhere(served: RunningGateway) -> None:
    """It works offline, and the policy lets no script run that the gateway does not serve, inline ones included."""
    page = httpx.get(f"{served.url}/docs")
    assert "<script>" not in page.text
    assert " onload=" not in page.text
    parts = re.findall(r"(?:src|href)=\"([^\"]+)\"", page.text)
    assert {part.rpartition(".")[2] for part in parts} == {"css", "js"}
    for part in (*parts, "docs/schemas.js", "docs/trial.js", "docs/elements.js"):
        found = httpx.get(f"{served.url}/{part}")
        assert found.status_code == 200
        assert not re.search(r"https?://", found.text)
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self';")
    assert "unsafe" not in policy
    assert httpx.get(f"{served.url}/docs/nothing.js").status_code == 404
