"""Nothing that a caller sends is dropped in silence: it has its effect, is refused by name, or is told in the answer.

The table of fields says which, and these tests read it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from openai.types import completion_create_params as of_completions
from openai.types.chat import completion_create_params as of_chat
from openai.types.responses import response_create_params as of_responses

from sluicegate.gateway.api.body.shared_fields import Extension
from sluicegate.gateway.api.builtin_dialects import DIALECTS as BUILT_IN
from sluicegate.gateway.fields import Status, rows_of
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Outcome
from tests.gateway.conftest import RunningGateway
from tests.gateway.test_socket import answer as answer_over_socket
from tests.gateway.test_socket import open_socket

TURN = [{"role": "user", "content": "why?"}]
CHAT, RESPONSES, MESSAGES, COMPLETIONS = "/v1/chat/completions", "/v1/responses", "/v1/messages", "/v1/completions"
DIALECTS = (CHAT, RESPONSES, MESSAGES, COMPLETIONS)
BODIES: Mapping[str, dict[str, Any]] = {
    CHAT: {"model": "scripted", "messages": TURN, "max_tokens": 20, "temperature": 0},
    RESPONSES: {"model": "scripted", "input": "why?", "max_output_tokens": 20, "temperature": 0},
    MESSAGES: {"model": "scripted", "messages": TURN, "max_tokens": 20, "temperature": 0},
    COMPLETIONS: {"model": "scripted", "prompt": "why?", "max_tokens": 20, "temperature": 0},
}
NAMED = {dialect.path: dialect.name for dialect in BUILT_IN}
"""What the table of fields calls them."""
MODELS = {dialect.path: dialect.fields.kind for dialect in BUILT_IN}
SCHEMA = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
STRUCTURED: Mapping[str, dict[str, Any]] = {
    CHAT: {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
    RESPONSES: {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}},
    MESSAGES: {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
    COMPLETIONS: {"structured_outputs": {"json": SCHEMA}},
}
OURS: Mapping[str, Any] = {
    "explain": True,
    "retrieve": False,
    "cache": {"tags": ["a"]},
    "grammar": {"whitespace": " ?"},
    "reasoning": True,
    "on_length": "close",
    "deadline_s": 33.0,
    "template": "t@1",
    "variables": {"language": "Danish"},
    "context": [{"text": "a fact"}],
    "context_tokens": 77,
    "confidence": True,
    "partial": True,
}
NEEDS = {"variables": {"template": "t@1"}, "context_tokens": {"context": [{"text": "a fact"}]}}


def statuses(path: str) -> dict[str, Status | None]:
    """Name -> what the table says of it at the top of a body of this dialect."""
    return {name: row.support.of(NAMED[path]) for name, row in rows_of(NAMED[path]).items() if name.isidentifier()}


def status_of_own_field(path: str, name: str) -> Status | None:
    return rows_of(NAMED[path])[f"sluicegate.{name}"].support.of(NAMED[path])


def reached(name: str, outcome: Outcome) -> bool:
    """Return whether the pipeline was asked for it. What it makes of that is proved where it is made."""
    request = outcome.request
    facts = {
        "explain": request.explain,
        "retrieve": request.retrieve is False,
        "cache": request.reuse.tags == ("a",),
        "grammar": request.constraint is not None and request.constraint.options == OURS["grammar"],
        "reasoning": request.reasoning,
        "on_length": request.sampling.close_on_length,
        "deadline_s": request.deadline_s == 33.0,
        "template": request.parts is not None and request.parts.template == "t@1",
        "variables": request.parts is not None and request.parts.variables == OURS["variables"],
        "context": any("a fact" in message.content for message in request.messages),
        "context_tokens": request.parts is not None and request.parts.context_tokens == 77,
        "confidence": request.confidence,
        "partial": request.partial,
    }
    return facts[name]


def body(path: str, name: str) -> dict[str, Any]:
    shaped = STRUCTURED[path] if name in ("grammar", "on_length") else {}
    asked = {**NEEDS.get(name, {}), name: OURS[name]}
    if "template" in asked:
        asked.setdefault("variables", OURS["variables"])
    return {**BODIES[path], **shaped, "sluicegate": asked}


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    templates = {"t@1": {"system": "Speak {{ language }}.", "user": "{{ context }} {{ question }}"}}
    batches = {"path": str(tmp_path_factory.mktemp("batches"))}
    settings = {"prompts": {"templates": templates}, "batches": batches}
    with TestApp(script=['{"a": 1}'], settings=settings, pipeline={"recall": ["memory"]}) as found:
        yield found


def test_the_examples_name_every_option_of_ours() -> None:
    assert set(OURS) == set(Extension.model_fields)


@pytest.mark.parametrize("path", DIALECTS)
@pytest.mark.parametrize("name", OURS)
def test_each_of_our_options_reaches_the_pipeline_or_is_refused_by_name(app: TestApp, path: str, name: str) -> None:
    before = len(app.outcomes)
    answer = app.client.post(path, json=body(path, name))
    if status_of_own_field(path, name) == "refused":
        assert answer.status_code == 400, answer.text
        assert param(answer.json()) in (f"sluicegate.{name}", f"sluicegate.{next(iter(NEEDS.get(name, {'': 0})))}")
    else:
        assert answer.status_code == 200, answer.text
        assert reached(name, app.wait_for_outcomes(before + 1)[-1])
        unheard = ["sluicegate.partial"] if name == "partial" else None  # nothing is streamed
        assert answer.json().get("sluicegate", {}).get("ignored") == unheard


def param(told: Mapping[str, Any]) -> str:
    """Return the parameter that an error names. Anthropic's errors have no place for it: the message begins with it."""
    error = told["error"]
    return str(error["param"] if "param" in error else error["message"].split("`")[1])


@pytest.mark.parametrize("name", OURS)
def test_each_of_our_options_works_over_a_socket(app: TestApp, name: str) -> None:
    before = len(app.outcomes)
    with open_socket(app.url) as socket:
        chunks = answer_over_socket(socket, body(CHAT, name))
    assert not any("error" in chunk for chunk in chunks), chunks
    assert reached(name, app.wait_for_outcomes(before + 1)[-1])


@pytest.mark.parametrize("path", [CHAT, RESPONSES, COMPLETIONS])
def test_a_batch_line_is_heeded_as_a_request_is(app: TestApp, path: str) -> None:
    """Every option of ours, one that nobody knows, and a stream, which no batch has."""
    asked = {name: body(path, name) for name in OURS}
    asked["unknown"] = {**BODIES[path], "flavour": "salt"}
    asked["stream"] = {**BODIES[path], "stream": True}
    lines = [{"custom_id": name, "method": "POST", "url": path, "body": line} for name, line in asked.items()]
    rows = ran_as_batch(app, path, lines)
    assert set(rows) == set(asked)
    for name in OURS:
        refused = status_of_own_field(path, name) == "refused"
        assert rows[name]["status_code"] == (400 if refused else 200), rows[name]
    assert rows["unknown"]["body"]["sluicegate"]["ignored"] == ["flavour"]
    assert rows["stream"]["body"]["error"]["param"] == "stream"


def ran_as_batch(app: TestApp, path: str, lines: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Run lines as a batch; return the answers by `custom_id`."""
    file = ("in.jsonl", "\n".join(map(json.dumps, lines)).encode())
    sent = app.client.post("/v1/files", files={"file": file}, data={"purpose": "batch"}).json()
    asked = {"input_file_id": sent["id"], "endpoint": path, "completion_window": "24h"}
    batch = app.client.post("/v1/batches", json=asked).json()
    while batch["status"] not in ("completed", "failed", "expired"):
        batch = app.client.get(f"/v1/batches/{batch['id']}").json()
    found = {}
    for file_id in filter(None, (batch["output_file_id"], batch["error_file_id"])):
        for row in app.client.get(f"/v1/files/{file_id}/content").text.splitlines():
            told = json.loads(row)
            found[told["custom_id"]] = told["response"]
    return found


@pytest.mark.parametrize("path", DIALECTS)
def test_fields_of_other_dialects_are_refused_or_told(app: TestApp, path: str) -> None:
    """Whatever the table says: the dialect's own are served, `refused` names the field, `reported` is in body and
    header."""
    for name, status in statuses(path).items():
        if status == "served":
            assert name in MODELS[path].model_fields
            continue
        answer = app.client.post(path, json={**BODIES[path], name: {"odd": 1}})
        if status == "refused":
            assert answer.status_code == 400, (name, answer.text)
            assert param(answer.json()) == name
        else:
            assert answer.status_code == 200, (name, answer.text)
            assert answer.json()["sluicegate"]["ignored"] == [name] == [answer.headers["x-sluicegate-ignored"]]


@pytest.mark.parametrize(
    ("path", "params"),
    [
        (CHAT, of_chat.CompletionCreateParamsNonStreaming),
        (RESPONSES, of_responses.ResponseCreateParamsNonStreaming),
        (COMPLETIONS, of_completions.CompletionCreateParamsNonStreaming),
    ],
)
def test_every_field_that_openai_knows_is_heeded_refused_or_told(app: TestApp, path: str, params: Any) -> None:
    """Those of the client that is installed, so that new ones are seen too."""
    names = {name for base in params.__mro__ for name in getattr(base, "__annotations__", {})}
    assert len(names) > 15
    assert names <= set(statuses(path)), "the table of fields misses what the client knows"
    for name in names - set(MODELS[path].model_fields):
        answer = app.client.post(path, json={**BODIES[path], name: {"odd": 1}})
        if answer.status_code == 200:
            assert answer.json()["sluicegate"]["ignored"] == [name]
        else:
            assert (answer.status_code, answer.json()["error"]["param"]) == (400, name)


@pytest.mark.parametrize(
    ("path", "fields", "name"),
    [
        (CHAT, {"length_penalty": 2.0}, "length_penalty"),
        (CHAT, {"num_beam_groups": 2}, "num_beam_groups"),
        (CHAT, {"use_beam_search": True, "sluicegate": {"on_length": "close"}}, "sluicegate.on_length"),
        (CHAT, {"stream_options": {"include_usage": True}}, "stream_options"),
        (CHAT, {"guided_regex": "a", "structured_outputs": {"regex": "b"}}, "guided_regex"),
        (CHAT, {"modalities": ["text", "audio"]}, "modalities[1]"),
        (CHAT, {"sluicegate": {"grammar": {"whitespace": " "}}}, "sluicegate.grammar"),
        (CHAT, {"guided_regex": "a", "sluicegate": {"grammar": {"whitespace": " "}}}, "sluicegate.grammar.whitespace"),
        (
            COMPLETIONS,
            {"guided_choice": ["a"], "sluicegate": {"grammar": {"fraction_digits": 2}}},
            "sluicegate.grammar.fraction_digits",
        ),
        (CHAT, {"sluicegate": {"on_length": "close"}}, "sluicegate.on_length"),
        (CHAT, {"sluicegate": {"variables": {"a": 1}}}, "sluicegate.variables"),
        (RESPONSES, {"sluicegate": {"context_tokens": 5}}, "sluicegate.context_tokens"),
        (RESPONSES, {"stream_options": {"include_usage": True}}, "stream_options"),
        (MESSAGES, {"sluicegate": {"grammar": {"whitespace": " "}}}, "sluicegate.grammar"),
        (COMPLETIONS, {"early_stopping": True}, "early_stopping"),
        ("/v1/embeddings", {"sluicegate": {"explain": True}}, "sluicegate"),
        ("/v1/moderations", {"sluicegate": {"explain": True}}, "sluicegate"),
    ],
)
def test_what_has_no_effect_beside_the_rest_is_refused(
    app: TestApp, path: str, fields: dict[str, Any], name: str
) -> None:
    asked = {**BODIES.get(path, {"model": "scripted", "input": "x"}), **fields}
    answer = app.client.post(path, json=asked)
    assert answer.status_code == 400, answer.text
    assert name in (param(answer.json()), answer.json()["error"]["message"].split("`")[1])


@pytest.mark.parametrize(
    ("path", "fields", "told"),
    [
        (CHAT, {"messages": [{**TURN[0], "mood": "good"}]}, ["messages[].mood"]),
        (CHAT, {"verbosity": "low", "service_tier": None}, ["verbosity"]),
        (CHAT, {"tools": [{"type": "function", "function": {"name": "f"}, "since": 1}]}, ["tools[].since"]),
        (CHAT, {"sluicegate": {"cache": {"semantic": True}}}, ["sluicegate.cache.semantic"]),
        (CHAT, {"sluicegate": {"cache": {"threshold": 0.9}}}, ["sluicegate.cache.threshold"]),
        (CHAT, {"temperature": 1, "sluicegate": {"cache": {"tags": ["a"]}}}, ["sluicegate.cache.tags"]),
        (RESPONSES, {"text": {"verbosity": "low"}}, ["text.verbosity"]),
        (RESPONSES, {"include": ["reasoning.encrypted_content"]}, ["include[]: reasoning.encrypted_content"]),
        (MESSAGES, {"thinking": {"type": "enabled", "budget_tokens": 19}}, ["thinking.budget_tokens"]),
        (MESSAGES, {"output_config": {"effort": "low"}}, ["output_config.effort"]),
    ],
)  # fmt: skip
def test_what_changes_no_answer_is_told(app: TestApp, path: str, fields: dict[str, Any], told: list[str]) -> None:
    answer = app.client.post(path, json={**BODIES[path], **fields})
    assert answer.status_code == 200, answer.text
    assert answer.json()["sluicegate"]["ignored"] == told
    assert answer.headers["x-sluicegate-ignored"] == ",".join(told)


def test_a_schema_beside_json_object_is_enforced(gateway: RunningGateway) -> None:
    """As some clients spell it; elsewhere in `response_format` it is refused."""
    asked = {**BODIES[CHAT], "model": "bundled", "response_format": {"type": "json_object", "schema": SCHEMA}}
    told = httpx.post(gateway.url + CHAT, json=asked, timeout=60).json()
    assert json.loads(told["choices"][0]["message"]["content"]) == {"a": 1}
    for wrong in ({"type": "text", "schema": SCHEMA}, {**STRUCTURED[CHAT]["response_format"], "schema": SCHEMA}):
        assert httpx.post(gateway.url + CHAT, json={**asked, "response_format": wrong}).status_code == 400


@pytest.mark.parametrize("path", DIALECTS)
def test_a_stream_tells_it_too(app: TestApp, path: str) -> None:
    answer = app.client.post(path, json={**BODIES[path], "stream": True, "flavour": "salt"})
    assert '"ignored":["flavour"]' in answer.text


def test_a_socket_tells_it_and_refuses_what_it_cannot_do(app: TestApp) -> None:
    with open_socket(app.url) as socket:
        chunks = answer_over_socket(socket, {**BODIES[CHAT], "flavour": "salt"})
        assert chunks[0]["sluicegate"]["ignored"] == ["flavour"]
        [error] = answer_over_socket(socket, {**BODIES[CHAT], "stream": False})
        assert error["error"]["param"] == "stream"


def test_a_name_of_the_callers_cannot_split_a_header(app: TestApp) -> None:
    """Whichever route tells what it ignored."""
    for path, asked in ((CHAT, BODIES[CHAT]), ("/v1/moderations", {"input": "x"})):
        answer = app.client.post(path, json={**asked, "a\r\nset-cookie: b": 1, "\u20ac": 1})
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
        assert answer.headers["x-sluicegate-ignored"] == "a??set-cookie: b,?"


def test_the_failure_of_a_tool_reaches_the_model(app: TestApp) -> None:
    """`is_error` and a document's title are words, since a prompt has nothing else."""
    use = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "no route", "is_error": True}
    document = {"type": "document", "title": "Ports", "source": {"type": "text", "data": "80"}}
    turns = [TURN[0], {"role": "assistant", "content": [use]}, {"role": "user", "content": [result, document]}]
    assert app.client.post(MESSAGES, json={**BODIES[MESSAGES], "messages": turns}).status_code == 200
    prompt = app.model.jobs[-1].prompt.text
    assert "The call failed: no route" in prompt
    assert "[Ports]\n80" in prompt


@pytest.mark.parametrize("path", DIALECTS)
def test_the_tokens_of_an_answer_are_explained_in_every_dialect(gateway: RunningGateway, path: str) -> None:
    asked = {**BODIES[path], **STRUCTURED[path], "model": "bundled", "sluicegate": {"explain": True, "cache": False}}
    told = httpx.post(gateway.url + path, json=asked, timeout=60).json()["sluicegate"]
    assert "".join(step["token"] for step in told["tokens"]).startswith("{")
    assert any(step["forced"] or step["masked"] for step in told["tokens"])
    assert {"queue_ms", "mask_ms", "forced_tokens"} <= set(told["engine"])


def test_several_prompts_each_tell_their_own_story(gateway: RunningGateway) -> None:
    asked = {**BODIES[COMPLETIONS], "model": "bundled", "prompt": ["a", "b"], "sluicegate": {"explain": True}}
    told = httpx.post(gateway.url + COMPLETIONS, json=asked, timeout=60).json()["sluicegate"]["prompts"]
    assert [bool(one["stages"] and one["tokens"]) for one in told] == [True, True]
