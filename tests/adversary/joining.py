"""What a client of each dialect joins of an answer, read from the wire, and an upstream that says what a test wants."""

from __future__ import annotations

import io
import json
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from websockets.sync.client import connect

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job, Piece, RegistryLike
from sluicegate.plugins.testing import ScriptedModel
from sluicegate.plugins.testing.doubles import ScriptedGeneration
from tests.gateway.upstream.servers import END, ScriptedServer, event, hangs, running, streams
from tests.waiting import LIMIT_S

Said = dict[str, str]
"""Joined texts: `content`, `reasoning`, `refusal`, `names`, `arguments`."""
FUNCTION = {"name": "look", "description": "Look", "parameters": {"type": "object"}}
TOOL = {"type": "function", "function": FUNCTION}
KEY = "AKIAIOSFODNN7EXAMPLE"
"""Which rails forbid, as a whole."""


class Liar(ScriptedServer):
    """Answers every request with the frames that the last `says` named."""

    def __init__(self) -> None:
        super().__init__(hangs)

    def says(self, *steps: dict[str, Any], reason: str = "stop", index: int = 0) -> None:
        """Send each step as a choice's `delta`; a key `logprobs` in it goes beside."""
        self.sends(*[_choice(step, index) for step in steps], _choice({}, index, reason))

    def sends(self, *choices: dict[str, Any]) -> None:
        self._acts = [streams(*[event({"choices": [choice]}) for choice in choices], END)]


def _choice(delta: dict[str, Any], index: int, reason: str | None = None) -> dict[str, Any]:
    beside = {"logprobs": delta["logprobs"]} if "logprobs" in delta else {}
    told = {name: value for name, value in delta.items() if name != "logprobs"}
    return {"index": index, "delta": told, "finish_reason": reason, **beside}


def say(text: str) -> dict[str, Any]:
    return {"content": text}


def think(text: str) -> dict[str, Any]:
    return {"reasoning_content": text}


def call(arguments: str = "{}", name: str | None = "look", index: int = 0) -> dict[str, Any]:
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {"tool_calls": [{"index": index, "id": f"c{index}", "type": "function", "function": function}]}


class Speaker(ScriptedModel):
    """A generator of a stranger's: gives just the pieces that a test wants, on any channel."""

    def __init__(self) -> None:
        super().__init__(names=("far",))
        self.pieces: list[Piece] = []

    async def generate(self, job: Job) -> ScriptedGeneration:
        return _Spoken(job, self.pieces)


class _Spoken(ScriptedGeneration):
    def __init__(self, job: Job, pieces: Sequence[Piece]) -> None:
        super().__init__(job, (), "stop", 0.0)
        self._given = pieces

    async def __aiter__(self) -> AsyncIterator[Piece]:
        for piece in self._given:
            yield piece


@contextmanager
def behind(speaker: Speaker, action: str = "redact", **settings: Any) -> Iterator[TestApp]:
    """Run a gateway with a rail around `speaker`."""
    rails = {"moderate": {"blocklist": {"phrases": ["halberd", "project nightjar"], "action": action}}}

    def register(registry: RegistryLike) -> None:
        registry.add("generate", "speaker", lambda _: speaker)

    slots = {"generate": ["speaker"], "moderate": ["blocklist"]}
    if "recall" in settings:
        slots, rails = slots | {"recall": ["memory"]}, rails | {"recall": settings.pop("recall")}
    with TestApp(register, pipeline=slots, stages=rails, names=("far",), settings=settings) as app:
        yield app


@contextmanager
def between(liar: Liar, *, action: str = "redact", **settings: Any) -> Iterator[TestApp]:
    """Run a gateway with three rails in front of `liar`."""
    rails = {"blocklist": {"phrases": ["halberd", "project nightjar"], "action": action}}
    slots = {"generate": ["upstream"], "constrain": ["grammar"], "moderate": ["secrets", "blocklist", "pii"]}
    slots |= settings.pop("pipeline", {})
    with running(liar) as url:
        models = {"far": {"url": url, "allow_private": True, "retries": 0, "dialect": "vllm"}}
        stages = {"generate": {"upstream": {"models": models}}, "moderate": rails, **settings.pop("stages", {})}
        with TestApp(pipeline=slots, stages=stages, settings=settings) as app:
            yield app


# --- dialects ------------------------------------------------------------------------------------------------------

ASKED = [{"role": "user", "content": "hi"}]


def chat(app: TestApp, stream: bool, with_tool: bool, **fields: Any) -> tuple[Said, str]:
    body = {"model": "far", "messages": ASKED, "stream": stream, **({"tools": [TOOL]} if with_tool else {}), **fields}
    raw = app.client.post("/v1/chat/completions", json=body).text
    return of_chat(_events(raw) if stream else [json.loads(raw)]), raw


def of_chat(bodies: Iterable[dict[str, Any]]) -> Said:
    said: dict[str, str] = defaultdict(str)
    for body in bodies:
        for choice in body.get("choices", ()):
            message = choice.get("delta") or choice.get("message") or {}
            said["content"] += message.get("content") or ""
            said["reasoning"] += message.get("reasoning_content") or ""
            said["refusal"] += message.get("refusal") or ""
            for made in message.get("tool_calls") or ():
                said["names"] += made["function"].get("name") or ""
                said[f"arguments{made.get('index', 0):03}"] += made["function"].get("arguments") or ""
    return _in_order(said)


def completions(app: TestApp, stream: bool, with_tool: bool, **fields: Any) -> tuple[Said, str]:
    raw = app.client.post("/v1/completions", json={"model": "far", "prompt": "hi", "stream": stream, **fields}).text
    bodies = _events(raw) if stream else [json.loads(raw)]
    return {"content": "".join(c["text"] for body in bodies for c in body.get("choices", ()))}, raw


def responses(app: TestApp, stream: bool, with_tool: bool, **fields: Any) -> tuple[Said, str]:
    asked = {"tools": [{"type": "function", **FUNCTION}]} if with_tool else {}
    raw = app.client.post(
        "/v1/responses", json={"model": "far", "input": "hi", "stream": stream, **asked, **fields}
    ).text
    if not stream:
        return _of_items(json.loads(raw).get("output", ())), raw
    said: dict[str, str] = defaultdict(str)
    kinds = {"output_text": "content", "reasoning_text": "reasoning", "refusal": "refusal"}
    for told in _events(raw):
        kind = told["type"].removeprefix("response.").removesuffix(".delta")
        if told["type"].endswith(".delta"):
            place = "" if kind in kinds else f"{told['output_index']:03}"
            said[kinds.get(kind, "arguments") + place] += told["delta"]
        if told["type"] == "response.output_item.added" and told["item"]["type"] == "function_call":
            said["names"] += told["item"]["name"]
        if told["type"] in ("response.completed", "response.incomplete"):
            said = _in_order(said)
            assert _of_items(told["response"]["output"]) == said, "the last event says what the deltas said"
    return said, raw


def _in_order(said: Said) -> Said:
    """Arguments of calls, which were told by call, as one."""
    calls = [name for name in sorted(said) if name.startswith("arguments")]
    arguments = "".join(said.pop(name) for name in calls)
    return defaultdict(str, said | ({"arguments": arguments} if calls else {}))


def _of_items(items: Iterable[dict[str, Any]]) -> Said:
    said: dict[str, str] = defaultdict(str)
    for item in items:
        if item["type"] == "function_call":
            said["names"] += item["name"]
            said["arguments"] += item["arguments"]
        for part in item.get("content", ()):
            kind = "refusal" if part["type"] == "refusal" else "reasoning" if item["type"] == "reasoning" else "content"
            said[kind] += part.get("text") or part.get("refusal") or ""
    return said


def messages(app: TestApp, stream: bool, with_tool: bool, **fields: Any) -> tuple[Said, str]:
    named = {"name": FUNCTION["name"], "description": "Look", "input_schema": FUNCTION["parameters"]}
    body = {"model": "far", "messages": ASKED, "max_tokens": 99, "stream": stream, **fields}
    raw = app.client.post("/v1/messages", json=body | ({"tools": [named]} if with_tool else {})).text
    said: dict[str, str] = defaultdict(str)
    if not stream:
        for block in json.loads(raw).get("content", ()):
            said["content"] += block.get("text", "")
            said["reasoning"] += block.get("thinking", "")
            said["names"] += block.get("name", "")
            said["arguments"] += json.dumps(block["input"]) if "input" in block else ""
        return said, raw
    kinds: dict[int, str] = {}
    stopped: set[int] = set()
    for told in _events(raw):
        if told["type"] == "content_block_start":
            assert told["index"] == len(kinds), "blocks are numbered in the order in which they begin"
            kinds[told["index"]] = told["content_block"]["type"]
            said["names"] += told["content_block"].get("name", "")
        if told["type"] == "content_block_delta":
            assert told["index"] in kinds, "a block begins before it grows"
            assert told["index"] not in stopped, "a block that has ended does not grow"
            delta = told["delta"]
            said["content"] += delta.get("text", "")
            said["reasoning"] += delta.get("thinking", "")
            said[f"arguments{told['index']:03}"] += delta.get("partial_json", "")
        if told["type"] == "content_block_stop":
            stopped.add(told["index"])
    assert "event: error" in raw or stopped == set(kinds), "every block ends"
    return _in_order(said), raw


def socket(app: TestApp, stream: bool, with_tool: bool, **fields: Any) -> tuple[Said, str]:
    body = {"model": "far", "messages": ASKED, **({"tools": [TOOL]} if with_tool else {}), **fields}
    with connect(app.url.replace("http", "ws", 1) + "/v1/chat/completions/ws", proxy=None) as opened:
        opened.send(json.dumps(body))
        got: list[str] = []
        while (text := str(opened.recv(timeout=30))) != "[DONE]":
            got.append(text)
    return of_chat(map(json.loads, got)), "\n".join(got)


def batch(app: TestApp, stream: bool, with_tool: bool, **fields: Any) -> tuple[Said, str]:
    body = {"model": "far", "messages": ASKED, **({"tools": [TOOL]} if with_tool else {}), **fields}
    line = json.dumps({"custom_id": "1", "method": "POST", "url": "/v1/chat/completions", "body": body})
    sent = {"file": ("in.jsonl", io.BytesIO(line.encode()))}
    made = app.client.post("/v1/files", files=sent, data={"purpose": "batch"}).json()
    asked = {"input_file_id": made["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
    found = app.client.post("/v1/batches", json=asked).json()
    deadline = time.monotonic() + LIMIT_S
    while found["status"] in ("validating", "in_progress", "finalizing"):
        assert time.monotonic() < deadline, found
        time.sleep(0.02)
        found = app.client.get(f"/v1/batches/{found['id']}").json()
    written = [found[name] for name in ("output_file_id", "error_file_id") if found.get(name)]
    raw = "\n".join(app.client.get(f"/v1/files/{name}/content").text for name in written)
    return of_chat(json.loads(row)["response"]["body"] for row in raw.splitlines()), raw


def _events(raw: str) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]


Dialect = Callable[..., tuple[Said, str]]
WAYS: Sequence[tuple[Dialect, bool]] = (
    *((dialect, stream) for dialect in (chat, responses, messages) for stream in (False, True)),
    (socket, True),
    (batch, False),
)
NAMES = [f"{dialect.__name__}-{'stream' if stream else 'whole'}" for dialect, stream in WAYS]
ways = pytest.mark.parametrize("way", WAYS, ids=NAMES)
