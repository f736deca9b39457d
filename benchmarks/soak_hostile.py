"""The attackers of `benchmarks.service_soak --hostile`: a hostile server behind a model, and a tenant with a key.

Neither may cost anybody else anything: each act has an outcome that must not be seen, counted in `lost`.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp
from aiohttp import web

PHRASE = "project nightjar"
"""Forbidden to leave; the gateway's blocklist holds it."""
HOSTILE = "hostile"
"""Id of its key."""
HOSTILE_KEY = "hostile-key"
UPSTREAM = "elsewhere"
MOST_TOKENS = 64
BIG = 7_900_000
GRAMMARS = (
    'start: WORD+\nWORD: /[a-z]+/\n%ignore " "',
    "start: w*\nw: /[a-z]+/",
    'start: NAME ("," NAME)*\nNAME: /[A-Za-z_][A-Za-z_0-9]*/\n%ignore /[ ]+/',
    'start: e\ne: e e | e "+" e | /[a-z0-9]+/',
)
Delta = dict[str, Any]


class HostileUpstream:
    """Answers chat completions with what no server should say; some answers are right, so that the breaker closes."""

    def __init__(self) -> None:
        self.answered = 0
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/chat/completions", self._answer)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def close(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        self.answered += 1
        if self.answered % 2:
            return await self._streamed(request, [{"content": "all "}, {"content": "is well"}], usage={})
        deltas, usage = random.choice(LIES)
        return await self._streamed(request, deltas, usage)

    async def _streamed(self, request: web.Request, deltas: list[Delta], usage: Delta) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for delta in deltas:
            logprobs = delta.pop("logprobs", None) if "logprobs" in delta else None
            choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": logprobs}
            await answer.write(_event({"choices": [choice]}))
        await answer.write(_event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}))
        await answer.write(_event({"choices": [], "usage": usage or {"prompt_tokens": 11, "completion_tokens": 4}}))
        await answer.write(b"data: [DONE]\n\n")
        await answer.write_eof()
        return answer


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _token(text: str, data: Any) -> Delta:
    return {"content": [{"token": text, "bytes": data, "logprob": -1.0, "top_logprobs": []}]}


LIES: tuple[tuple[list[Delta], Delta], ...] = (
    ([{"content": "project night"}, {"reasoning_content": "x"}, {"content": "jar"}], {}),
    ([{"content": "ok", "logprobs": _token(PHRASE, None)}], {}),
    ([{"content": "ok", "logprobs": _token("ok", 300_000_000)}], {}),
    ([{"content": "ok"}], {"prompt_tokens": 10, "completion_tokens": 12_000_000_000_000}),
    ([{"content": "ok"}], {"prompt_tokens": 10**30, "completion_tokens": -5}),
    ([{"content": "word " * 200}] * 200, {}),
    ([{"tool_calls": [{"index": 0, "function": {"name": PHRASE, "arguments": "{}"}}]}], {}),
    ([{"content": {"a": 1}}], {}),
    ([{"content": "\ud800" * 3}], {}),
)


class HostileTenant:
    """Has a key of its own. `post(path, body)` sends with it."""

    def __init__(self, url: str, session: aiohttp.ClientSession, lost: Counter[str], did: Counter[str]) -> None:
        self._url = url
        self._session = session
        self._lost = lost
        self._did = did
        self.acts: tuple[Callable[[], Awaitable[None]], ...] = (
            *(self.long_prompt, self.many_messages, self.long_moderation, self.costly_grammar, self.many_patterns),
            *(self.deep_schema, self.upload, self.ask_the_liar, self.ask_the_liar, self.ask_the_liar, self.hang_up),
        )

    async def act(self) -> None:
        act = random.choice(self.acts)
        try:
            async with asyncio.timeout(60):
                await act()
        except TimeoutError:
            self._lost[f"hostile {act.__name__}: no answer in 60 s"] += 1

    async def long_prompt(self) -> None:
        await self._chat({"messages": [{"role": "user", "content": "word " * (BIG // 5)}]}, 400, 413, 429, 503)

    async def many_messages(self) -> None:
        await self._chat({"messages": [{"role": "user", "content": "x"}] * 100_000}, 400, 413, 429, 503)

    async def long_moderation(self) -> None:
        await self._post("/v1/moderations", {"input": "lorem ipsum " * (BIG // 12)}, 200, 400, 413, 429, 503)

    async def costly_grammar(self) -> None:
        asked = {"structured_outputs": {"grammar": random.choice(GRAMMARS)}, "max_tokens": 32}
        await self._chat({**_said("go on"), **asked}, 200, 400, 429, 500, 503)

    async def many_patterns(self) -> None:
        patterns = {
            f"p{i}": {"type": "string", "pattern": f"^(a|b)*a(a|b){{{8 + i}}}{random.random()}$"} for i in range(12)
        }
        await self._chat(_said("x") | _format({"type": "object", "properties": patterns}), 200, 400, 429, 503)

    async def deep_schema(self) -> None:
        schema: dict[str, Any] = {"type": "string"}
        for _ in range(random.choice((150, 300, 3000))):
            schema = {"type": "array", "items": schema}
        body = json.dumps(_said("x")).encode()[:-1] + b', "response_format": ' + _dumped(schema) + b"}"
        await self._post("/v1/chat/completions", body, 200, 400, 413, 429, 503)

    async def upload(self) -> None:
        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", b"{}\n" * 1_000_000, filename="in.jsonl")
        await self._post("/v1/files", form, 200, 400, 413, 429, 503, 507)

    async def ask_the_liar(self) -> None:
        body = {**_said(f"tell {random.random()}"), "model": UPSTREAM, "max_tokens": MOST_TOKENS, "stream": True}
        text = await self._chat(body, 200, 429, 500, 502, 503)
        if PHRASE in _joined(text) or PHRASE in text:
            self._lost["forbidden text left"] += 1

    async def hang_up(self) -> None:
        body = {**_said("tell"), "model": UPSTREAM, "max_tokens": MOST_TOKENS, "stream": True}
        async with self._session.post(self._url + "/v1/chat/completions", json=body, headers=_key()):
            self._did["hostile hung up"] += 1

    async def _chat(self, body: dict[str, Any], *expected: int) -> str:
        return await self._post("/v1/chat/completions", {"model": "bundled", "max_tokens": 16, **body}, *expected)

    async def _post(self, path: str, body: Any, *expected: int) -> str:
        sent = {"json": body} if isinstance(body, dict) else {"data": body}
        heads = _key() if not isinstance(body, bytes) else {**_key(), "content-type": "application/json"}
        async with self._session.post(self._url + path, headers=heads, **sent) as answer:
            text = await answer.text(errors="replace")
            self._did[f"hostile {path} {answer.status}"] += 1
            if answer.status not in expected:
                self._lost[f"hostile {path}: status {answer.status} {text[:200]}"] += 1
            return text


def _key() -> dict[str, str]:
    return {"authorization": f"Bearer {HOSTILE_KEY}"}


def _said(text: str) -> dict[str, Any]:
    return {"model": "bundled", "messages": [{"role": "user", "content": text}]}


def _format(schema: dict[str, Any]) -> dict[str, Any]:
    return {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}


def _dumped(schema: dict[str, Any]) -> bytes:
    """Write a schema that is deeper than the `json` module writes by recursion: the brackets of nested arrays are put
    by hand."""
    depth = 0
    while "items" in schema:
        schema, depth = schema["items"], depth + 1
    inner = b'{"type":"array","items":' * depth + json.dumps(schema).encode() + b"}" * depth
    return b'{"type":"json_schema","json_schema":{"name":"x","schema":' + inner + b"}}"


def _joined(text: str) -> str:
    """Return the content of a stream as a client joins it."""
    parts = []
    for line in text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:]).get("choices", ()):
                parts.append((choice.get("delta") or {}).get("content") or "")
    return "".join(parts)
