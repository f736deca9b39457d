"""Who is refused before anything but the head of the request is read."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.gateway.api.builtin_dialects import DIALECTS
from sluicegate.gateway.api.dialect import TextDialect
from sluicegate.gateway.console.views import ConsoleViews
from sluicegate.gateway.http.arrival import ARRIVED, unread_s
from sluicegate.gateway.routing.kept_shares import KeptShares
from sluicegate.gateway.routing.queues import ModelQueues
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Load, Overloaded
from sluicegate.plugins.testing import ScriptedModel
from sluicegate.plugins.testing.doubles import FakeModel

SHED_S = 1.0
TEXTS = [dialect for dialect in DIALECTS if isinstance(dialect, TextDialect)]
KEY = {"id": "a", "key": "sk-a"}


class Places(ScriptedModel):
    """Says of each model how long a place is waited for."""

    def __init__(self, **waits_s: float) -> None:
        super().__init__((), names=tuple(waits_s))
        self.waits_s = waits_s

    def load(self, model: str) -> Load:
        return Load(0, 0, 0, 0, self.waits_s[model])


class Embedder(FakeModel):
    reads_for = "embed"
    dimensions = (8,)
    normalises = True


def is_refused(ask: Callable[[], None]) -> bool:
    try:
        ask()
    except Overloaded as refused:
        return refused.retry_after_s > 0
    return False


# --- the law -------------------------------------------------------------------------------------------------------


def test_one_free_model_keeps_the_door_open() -> None:
    """The body says which one is asked for, and nobody has read it."""
    queues = ModelQueues({}, SHED_S)
    queues.turn_away(Places(busy=9.0, free=0.0), "a", 0.0)
    with pytest.raises(Overloaded, match="the gateway is busy"):
        queues.turn_away(Places(busy=9.0, busier=20.0), "a", 0.0)


def test_a_model_that_writes_nothing_does_not_keep_it_open() -> None:
    generator = Places(busy=9.0)
    generator.models["reader"] = Embedder("reader")  # type: ignore[index]
    with pytest.raises(Overloaded):
        ModelQueues({}, SHED_S).turn_away(generator, "a", 0.0)


def test_where_nothing_is_generated_nobody_is_turned_away() -> None:
    ModelQueues({}, SHED_S).turn_away(Places(), "a", 0.0)


def test_what_is_late_already_is_refused_whoever_asks() -> None:
    queues, free = ModelQueues({}, SHED_S), Places(free=0.0)
    for _ in range(50):
        queues.served_kept("a")
    assert is_refused(lambda: queues.turn_away(free, "a", SHED_S))
    assert not is_refused(lambda: queues.turn_away(free, "a", 0.9 * SHED_S)), "nobody is before it"


def test_late_texts_shut_the_door_until_one_in_time_is_due() -> None:
    """Where the processor is the bottleneck nobody waits for the model, and yet all are late."""
    now = [100.0]
    queues, model = ModelQueues({}, SHED_S, lambda: now[0]), Places(one=0.0)
    for _ in range(20):
        awaited = queues.expect("one", 0, "a")
        now[0] += 2 * SHED_S
        assert awaited is not None
        awaited.came(2 * SHED_S)
    queues.expect("one", 0, "a").gave_up()  # type: ignore[union-attr]
    assert is_refused(lambda: queues.turn_away(model, "a", 0.3 * SHED_S))
    now[0] += SHED_S
    assert not is_refused(lambda: queues.turn_away(model, "a", 0.3 * SHED_S))


def test_what_waited_to_be_read_counts_as_waiting() -> None:
    queues, model = ModelQueues({}, SHED_S), Places(one=0.3)
    assert not is_refused(lambda: queues.turn_away(model, "a", 0.0))
    assert is_refused(lambda: queues.turn_away(model, "a", 0.3))


def test_answers_that_are_kept_are_looked_for_under_any_load() -> None:
    queues, busy = ModelQueues({}, SHED_S), Places(busy=9.0)
    for number in range(200):  # a third of what `a` asks is kept
        queues.served_kept("a") if number % 3 == 0 else is_refused(lambda: queues.shed(busy, "busy", 0, "a"))
    assert not is_refused(lambda: queues.turn_away(busy, "a", 0.0))
    assert is_refused(lambda: queues.turn_away(busy, "b", 0.0))
    for _ in range(200):
        is_refused(lambda: queues.shed(busy, "busy", 0, "a"))
    assert is_refused(lambda: queues.turn_away(busy, "a", 0.0)), "nothing of it is kept any more"


def test_tenants_without_kept_answers_are_not_remembered() -> None:
    shares = KeptShares()
    for number in range(1000):
        shares.missed(f"tenant {number}")
        shares.hit(f"lucky {number}")
        for _ in range(100):
            shares.missed(f"lucky {number}")
    assert not shares._shares


@settings(max_examples=60, deadline=None)
@given(
    waits=st.dictionaries(st.sampled_from("xyz"), st.floats(0, 3), min_size=1),
    awaited=st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("ab")), max_size=12),
    took=st.floats(0, 3),
    waited_s=st.floats(0, 1.5),
)
def test_the_door_refuses_what_every_model_would(
    waits: dict[str, float], awaited: list[tuple[str, str]], took: float, waited_s: float
) -> None:
    """No more than that, and no less."""
    now = [100.0]
    queues, generator = ModelQueues({}, SHED_S, lambda: now[0]), Places(**waits)
    for place, (model, tenant) in enumerate(awaited):
        text = queues.expect(model, 0, tenant)
        now[0] += took / 10
        if place % 2 and text is not None:
            text.came(took)
    at_models = [is_refused(lambda name=name: queues.shed(generator, name, 0, "a", waited_s)) for name in waits]
    assert is_refused(lambda: queues.turn_away(generator, "a", waited_s)) is all(at_models)


def test_a_gateway_that_sheds_nobody_has_no_door() -> None:
    ModelQueues({}).turn_away(Places(busy=9.0), "a", 100.0)


# --- when a request arrived ----------------------------------------------------------------------------------------


def test_the_kernel_says_how_long_bytes_have_waited() -> None:
    with socket.create_server(("127.0.0.1", 0)) as door, socket.create_connection(door.getsockname()) as client:
        served, _ = door.accept()
        with served:
            client.sendall(b"POST")
            time.sleep(0.2)
            assert unread_s(served) >= 0.15


def test_what_no_kernel_knows_has_not_waited() -> None:
    here, there = socket.socketpair()
    with here, there:
        assert unread_s(here) == 0
    assert unread_s(None) == 0
    closed = socket.socket()
    closed.close()
    assert unread_s(closed) == 0


# --- through the application ---------------------------------------------------------------------------------------


async def post(
    app: TestApp, path: str, body: bytes, waited_s: float, key: str = "sk-a"
) -> tuple[int, Any, dict[str, str], bool]:
    """Status, body and headers of the answer, and whether the request's body was read."""
    read, answer = False, []

    async def receive() -> Any:
        nonlocal read
        if read:
            await asyncio.Event().wait()  # the client stays
        read = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answer.append(message)

    headers = [
        (b"host", b"127.0.0.1"),
        (b"content-type", b"application/json"),
        (b"authorization", f"Bearer {key}".encode()),
    ]
    scope = {"type": "http", "method": "POST", "path": path, "raw_path": path.encode(), "query_string": b""}
    scope |= {"headers": headers, "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80), "scheme": "http"}
    scope |= {"http_version": "1.1", "root_path": "", "extensions": {ARRIVED: time.perf_counter() - waited_s}}
    await app.app(scope, receive, send)
    heads = {name.decode(): value.decode() for name, value in answer[0]["headers"]}
    return answer[0]["status"], json.loads(answer[1]["body"]), heads, read


def gateway(**more: Any) -> TestApp:
    return TestApp(settings={"server": {"shed_s": 60.0}}, keys=[KEY], pipeline={"admit": ["api-keys"]}, **more)


@pytest.mark.parametrize("dialect", TEXTS, ids=lambda dialect: dialect.name)
async def test_a_refusal_reads_no_body_and_speaks_the_dialect(dialect: TextDialect[Any]) -> None:
    async with gateway() as app:
        status, told, headers, read = await post(app, dialect.path, b"{", waited_s=100.0)
        assert (status, read) == (503, False)
        assert int(headers["retry-after"]) >= 1
        assert "x-request-id" in headers
        error = dialect.errors.body(Overloaded("x", retry_after_s=1.0))
        assert json.loads(error).keys() == told.keys()
        assert told["error"].get("code", "overloaded") == "overloaded"
        assert app.runtime.queues.stats()["turned_away_total"] == 1
        assert (await post(app, dialect.path, b"{", waited_s=0.0))[0] == 400, "who is in time is read"


async def test_an_operator_sees_who_was_turned_away(caplog: pytest.LogCaptureFixture) -> None:
    """By tenant in the console's overview, apart from the requests that have a line; one line of log for many."""
    async with gateway() as app:
        for _ in range(5):
            assert (await post(app, "/v1/chat/completions", b"{", waited_s=100.0))[0] == 503
        slices = ConsoleViews(app.runtime).overview()["series"]
        away = [line for one in slices for line in one["turned_away"]]
        assert sum(count for _, count in away) == 5
        assert {tenant for tenant, _ in away} == {"a"}
        assert not sum(one["requests"] for one in slices)
        lines = [record for record in caplog.records if record.name == "sluicegate.door"]
        assert 1 <= len(lines) <= len(slices)


async def test_a_key_that_nobody_knows_learns_nothing_of_the_load() -> None:
    async with gateway() as app:
        status, _, _, read = await post(app, "/v1/chat/completions", b"{", waited_s=100.0, key="sk-wrong")
        assert (status, read) == (401, False)


async def test_what_generates_no_text_passes_the_door() -> None:
    async with gateway() as app:
        status, told, _, _ = await post(app, "/v1/moderations", b'{"input": "hi"}', waited_s=100.0)
        assert status == 200, told


async def test_the_wait_before_the_reading_is_part_of_the_time_to_the_first_text() -> None:
    async with gateway() as app:
        body = {"model": "scripted", "stream": False, "messages": [{"role": "user", "content": "hi"}]}
        assert (await post(app, "/v1/chat/completions", json.dumps(body).encode(), waited_s=30.0))[0] == 200
        await asyncio.sleep(0)
        (outcome,) = app.outcomes
    assert outcome.duration_s >= (outcome.time_to_first_chunk_s or 0) >= 30
