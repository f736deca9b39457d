"""Two real llama.cpp servers with the bundled model, behind one name."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.upstream.fleets import client_of
from tests.gateway.upstream.llama_cpp import llama_cpp, write_gguf
from tests.waiting import until

PYTHON = os.environ.get("LLAMA_CPP_PYTHON", "")
pytestmark = pytest.mark.skipif(
    not PYTHON, reason="set LLAMA_CPP_PYTHON to the Python of an environment that has `xllamacpp`"
)
SCHEMA = {
    "type": "object",
    "properties": {"number": {"type": "string", "maxLength": 20}, "total": {"type": "integer", "maximum": 99999}},
    "required": ["number", "total"],
    "additionalProperties": False,
}
"""Bounded: llama.cpp cuts texts in another way before it looks for tokens, so what the model writes says little."""
AS_JSON = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
TEXT = "Invoice INV-2041 from Harbour Tools, total 318.40 EUR."


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    model = write_gguf(tmp_path_factory.mktemp("gguf") / "bundled.gguf")
    with llama_cpp(PYTHON, model) as first, llama_cpp(PYTHON, model) as second:
        far: dict[str, Any] = {"urls": [first, second], "allow_private": True, "dialect": "llama.cpp", "probe_s": 0.2}
        stages = {"generate": {"upstream": {"models": {"far": far}}}}
        slots = {"generate": ["upstream"], "constrain": ["grammar"], "moderate": ["blocklist"]}
        stages["moderate"] = {"blocklist": {"phrases": ["INV-2041"], "action": "redact"}}  # type: ignore[assignment]
        with TestApp(pipeline=slots, stages=stages) as made:
            yield made


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("seed", range(3))
def test_answers_follow_their_schema_and_meet_our_rails(app: TestApp, stream: bool, seed: int) -> None:
    reply = app.ask(TEXT, model="far", stream=stream, max_tokens=80, seed=seed, **AS_JSON)
    assert reply.error is None
    found = json.loads(reply.text)
    assert set(found) == {"number", "total"}
    assert "INV-2041" not in reply.text


def test_choices_and_grammars_are_kept_by_the_server_itself(app: TestApp) -> None:
    """In one try: nothing had to be asked for again."""
    before = client_of(app).tries
    choice = app.ask(TEXT, model="far", structured_outputs={"choice": ['say "hi"', "a\nb"]}, max_tokens=40)
    assert choice.text in ('say "hi"', "a\nb")
    grammar = 'root ::= "x" [0-9] "y"'
    text = app.ask(TEXT, model="far", structured_outputs={"grammar": grammar}, max_tokens=40).text
    assert (len(text), text[0], text[2]) == (3, "x", "y")
    assert client_of(app).tries == before + 2


def test_a_regular_expression_is_refused_and_not_left_out(app: TestApp) -> None:
    reply = app.ask(TEXT, model="far", structured_outputs={"regex": "a+"})
    assert reply.status == 400


def test_its_own_account_of_its_load_is_read(app: TestApp) -> None:
    until(lambda: all(server.report.requests is not None for server in client_of(app).servers))


def test_one_beginning_stays_with_one_server(app: TestApp) -> None:
    """And that server says that it had read it: its cached tokens reach the caller's usage."""
    long = TEXT * 12
    first = app.ask(long, model="far", max_tokens=8)
    again = app.ask(long, model="far", max_tokens=8)
    assert first.status == again.status == 200
    outcomes = app.wait_for_outcomes(1)
    assert outcomes[-1].usage.cached_tokens > 200
