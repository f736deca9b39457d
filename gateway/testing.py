"""A whole gateway around an author's stages, with a model that says what the test tells it to.

    with TestApp(register, pipeline={"moderate": ["tickets"]}, script=["see AC", "ME-1234"]) as gateway:
        assert gateway.ask("Which ticket?").text == "see [TICKET]"

`with` serves on a port of its own, as clients meet it; `async with` stays in the caller's event loop (`httpx` then
gives a stream only once it is whole).
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import uvicorn

from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.dialect import Dialect
from sluicegate.gateway.app import create_app
from sluicegate.gateway.compose import compose
from sluicegate.gateway.config import load
from sluicegate.gateway.http.connection.protocol import guarded_protocol
from sluicegate.gateway.http.connection.web_sockets import guarded_socket
from sluicegate.gateway.lifecycle import close, start
from sluicegate.plugins import Outcome, RegistryLike
from sluicegate.plugins.testing import KeepingRecorder, ScriptedModel, Unconstrained
from sluicegate.plugins.testing.doubles import MODEL, Script

START_LIMIT_S = 30.0
STOP_LIMIT_S = 60.0
DEFAULTS: Mapping[str, Sequence[str]] = {
    "admit": (),
    "screen": (),
    "recall": (),
    "constrain": ("unconstrained",),
    "generate": ("scripted",),
    "moderate": (),
    "record": ("kept",),
}


@dataclass(frozen=True, slots=True)
class AppReply:
    """What a client got. `text` is all content of choice 0; `pieces` its parts as they came; `error` the error body
    or event, if there was one; `body` the last JSON object."""

    status: int
    text: str = ""
    finish_reason: str | None = None
    pieces: tuple[str, ...] = ()
    error: Mapping[str, Any] | None = None
    body: Mapping[str, Any] = field(default_factory=dict)


class TestApp:
    """`stages` are settings by slot and name; `pipeline` names the stages by slot, where other than scripted ones;
    `names` are the models served, `keys` what `[[keys]]` says, `accounts` what `[accounts]` does, `settings` what other
    tables do, `dialects` the wire formats. Inside `with`: `url`, `client`, `ask`; inside `async with`: `client`,
    `ask_async`."""

    __test__ = False  # pytest would collect it

    url: str
    client: Any
    """`httpx.Client` or `httpx.AsyncClient` with its base URL set."""

    def __init__(
        self,
        *registers: Callable[[RegistryLike], None],
        pipeline: Mapping[str, Sequence[str]] | None = None,
        stages: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        script: Script = ("Hello", " back"),
        delay_s: float = 0.0,
        names: Sequence[str] = (MODEL,),
        keys: Sequence[Mapping[str, Any]] = (),
        accounts: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
        dialects: Sequence[Dialect] = DIALECTS,
    ) -> None:
        self.model = ScriptedModel(script, delay_s=delay_s, names=names)
        self.recorder = KeepingRecorder()
        tables = {slot: list(found) for slot, found in {**DEFAULTS, **(pipeline or {})}.items()}
        if "kept" not in tables["record"]:
            tables["record"].append("kept")
        overrides = {"pipeline": tables, "stages": dict(stages or {}), "keys": [dict(key) for key in keys]}
        overrides["accounts"] = dict(accounts or {})
        loaded = load(overrides={**overrides, **(settings or {})})
        self.runtime = compose(loaded, {}, registers=(self._register, *registers))
        self._dialects = dialects
        self.app = create_app(loaded, runtime=self.runtime, dialects=dialects)

    @property
    def outcomes(self) -> list[Outcome]:
        """Return what the recorders were given, request by request, a moment after the client has its answer."""
        return self.recorder.outcomes

    def wait_for_outcomes(self, count: int = 1, limit_s: float = 120.0) -> list[Outcome]:
        """Return `outcomes`, once there are `count` of them. For `with` only: it would keep the caller's event loop
        busy. Raises `TimeoutError` after `limit_s`."""
        deadline = time.monotonic() + limit_s
        while len(self.outcomes) < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{len(self.outcomes)} requests were recorded in {limit_s:g} s, expected {count}")
            time.sleep(0.005)
        return self.outcomes

    def ask(self, text: str = "Hello", *, stream: bool = True, **fields: Any) -> AppReply:
        """Ask for one chat completion. `fields` are those of its JSON body."""
        with self.client.stream("POST", "/v1/chat/completions", json=_body(text, stream, fields)) as answer:
            return _read(answer, list(answer.iter_lines()))

    async def ask_async(self, text: str = "Hello", *, stream: bool = True, **fields: Any) -> AppReply:
        """Ask for one chat completion, as `ask`, inside `async with`."""
        answer = await self.client.post("/v1/chat/completions", json=_body(text, stream, fields))
        return _read(answer, answer.text.splitlines())

    def __enter__(self) -> TestApp:
        listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        limits = self.runtime.settings.server
        http = guarded_protocol(limits, self.app.state.door.at_head)
        protocols: dict[str, Any] = {"http": http, "ws": guarded_socket(limits)}
        config = uvicorn.Config(self.app, **protocols, log_config=None, timeout_graceful_shutdown=2)
        self._server = uvicorn.Server(config)
        self._loop = asyncio.new_event_loop()
        work = self._server.serve(sockets=[listener])
        self._thread = threading.Thread(target=run_in, args=(self._loop, work), daemon=True)
        self._thread.start()
        self.client = httpx.Client(base_url=self.url, timeout=30, trust_env=False)
        try:
            self._wait_until_started()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.client.close()
        self._server.should_exit = True
        self._thread.join(STOP_LIMIT_S)
        if self._thread.is_alive():
            waiting = waiting_in(self._loop)
            raise TimeoutError(f"the gateway did not stop within {STOP_LIMIT_S:g} s; its tasks wait here:\n{waiting}")

    async def __aenter__(self) -> TestApp:
        await start(self.runtime, self._dialects)
        self._raise_failure()
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(self.app), base_url="http://localhost")
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.client.aclose()
        await close(self.runtime)

    def _register(self, registry: RegistryLike) -> None:
        registry.add("generate", "scripted", lambda settings: self.model)
        registry.add("constrain", "unconstrained", lambda settings: Unconstrained())
        registry.add("record", "kept", lambda settings: self.recorder)

    def _wait_until_started(self) -> None:
        deadline = time.monotonic() + START_LIMIT_S
        progress = self.runtime.progress
        while not self.runtime.ready and progress.failure is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the gateway was not ready after {START_LIMIT_S:g} s: {progress.state}")
            time.sleep(0.01)
        self._raise_failure()

    def _raise_failure(self) -> None:
        progress = self.runtime.progress
        if progress.failure is not None:
            raise RuntimeError(f"the gateway did not become ready: {progress.state}") from progress.failure


def _body(text: str, stream: bool, fields: Mapping[str, Any]) -> dict[str, Any]:
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "stream": stream, **fields}


def _read(answer: httpx.Response, lines: Sequence[str]) -> AppReply:
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        return _read_whole(answer.status_code, json.loads("\n".join(lines)))
    events = [json.loads(line[len("data: ") :]) for line in lines if line.startswith("data: {")]
    choices = [choice for event in events for choice in event.get("choices", ()) if choice["index"] == 0]
    pieces = tuple(choice["delta"].get("content") or "" for choice in choices)
    ended = next((choice["finish_reason"] for choice in choices if choice["finish_reason"]), None)
    error = next((event["error"] for event in events if "error" in event), None)
    kept = tuple(piece for piece in pieces if piece)
    return AppReply(answer.status_code, "".join(kept), ended, kept, error, events[-1] if events else {})


def _read_whole(status: int, body: Mapping[str, Any]) -> AppReply:
    if "error" in body:
        return AppReply(status, error=body["error"], body=body)
    choice = body["choices"][0]
    text = choice["message"].get("content") or ""
    return AppReply(status, text, choice["finish_reason"], (text,), body=body)


def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, None]) -> None:
    """Run `work` in `loop`, which is closed when it ends."""
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(work)


def waiting_in(loop: asyncio.AbstractEventLoop) -> str:
    """Return where each task of an event loop waits, a line each."""
    return "\n".join(map(_place_of, asyncio.all_tasks(loop)))


def _place_of(task: asyncio.Task[Any]) -> str:
    """Return the lines at which a task waits, outermost first."""
    lines: list[str] = []
    waiting: Any = task.get_coro()
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}")
        waiting = waiting.cr_await
    return f"{task.get_name()}: {' > '.join(lines)} > {waiting!r}"
