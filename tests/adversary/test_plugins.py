"""A plug-in that misbehaves: what it answers is checked where it enters, and only its own request suffers."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Mark, Message, Request, ScreenResult, Span, Verdict
from tests.waiting import until

Act = Callable[[Request], Any]
BUDGET_S = 0.5
TOOLS = [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}]


class Bad:
    """Does what `act` says to requests whose text is `bad`; to others it has nothing to say."""

    def __init__(self, act: Act) -> None:
        self.act = act

    async def screen(self, request: Request, caller: Any) -> Any:
        if request.messages[0].content.startswith("bad"):
            found = self.act(request)
            return await found if asyncio.iscoroutine(found) else found
        return ScreenResult()


def around(rail: Any, **settings: Any) -> TestApp:
    def register(registry: Any) -> None:
        registry.add("screen", "bad", lambda _: rail)

    return TestApp(register, pipeline={"screen": ["bad"], "record": ["metrics"]}, settings=settings)


def raises(error: BaseException) -> Act:
    def act(request: Request) -> Any:
        raise error

    return act


class Rude(BaseException):
    pass


def without_last(request: Request) -> ScreenResult:
    return ScreenResult("redact", "r", request.messages[:-1])


def as_system(request: Request) -> ScreenResult:
    return ScreenResult("redact", "r", (Message("system", request.messages[0].content),))


NONSENSE: dict[str, Act] = {
    "nothing": lambda r: None,
    "a string": lambda r: "block",
    "another action": lambda r: ScreenResult("allow"),  # type: ignore[arg-type]
    "no messages": lambda r: ScreenResult("redact", "r"),
    "fewer messages": without_last,
    "another role": as_system,
    "another name": lambda r: ScreenResult("redact", "r", (Message("user", "x", "eve"),)),
    "a list": lambda r: ScreenResult("redact", "r", list(r.messages)),  # type: ignore[arg-type]
    "no text": lambda r: ScreenResult("redact", "r", (Message("user", 7),)),  # type: ignore[arg-type]
    "gigabytes": lambda r: ScreenResult("redact", "r", (Message("user", "x" * 5_000_000),)),
    "not a number": lambda r: ScreenResult(score=float("nan")),
    "a score of text": lambda r: ScreenResult(score="high"),  # type: ignore[arg-type]
    "a reason of bytes": lambda r: ScreenResult("block", b"no"),  # type: ignore[arg-type]
    "a place that is none": lambda r: ScreenResult("redact", "r", texts={("nowhere",): "x"}),
    "texts that are none": lambda r: ScreenResult("redact", "r", texts={("messages", 0, "content"): None}),  # type: ignore[dict-item]
    "an empty placeholder": lambda r: ScreenResult(restore={"": "x"}),
    "a million placeholders": lambda r: ScreenResult(restore={str(i): "x" for i in range(20_000)}),
    "an exception": raises(RuntimeError("no")),
    "the end of the process": raises(SystemExit(3)),
    "an interrupt": raises(KeyboardInterrupt()),
    "an exception of its own kind": raises(Rude()),
    "its own cancellation": raises(asyncio.CancelledError()),
}


@pytest.mark.parametrize("what", NONSENSE)
def test_what_a_rail_may_not_answer_closes_its_request_and_no_other(what: str) -> None:
    with around(Bad(NONSENSE[what])) as app:
        reply = app.ask("bad text", stream=False)
        assert (reply.status, (reply.error or {})["code"]) == (500, "stage_failed"), reply.body
        assert app.model.jobs == []
        assert app.ask("good", stream=False).text == "Hello back"


def test_endless_words_of_a_rail_are_cut() -> None:
    with around(Bad(lambda r: ScreenResult("block", "r" * 10_000_000, told="t" * 10_000_000))) as app:
        reply = app.ask("bad", stream=False)
        assert (reply.status, (reply.error or {})["code"]) == (400, "content_filter")
        assert len((reply.error or {})["message"]) < 500
        (outcome,) = app.wait_for_outcomes()
        assert len(str(outcome.decisions)) < 5_000


def test_what_a_rail_does_to_the_schemas_it_is_handed_changes_nobody_elses() -> None:
    def act(request: Request) -> ScreenResult:
        request.tools[0].parameters.clear()  # type: ignore[attr-defined]
        return ScreenResult()

    seen: list[Any] = []

    class Watching(Bad):
        async def screen(self, request: Request, caller: Any) -> Any:
            result = await super().screen(request, caller)
            seen.append(request)
            return result

    with around(Watching(act)) as app:
        assert app.ask("bad", stream=False, tools=TOOLS).status == 200
        asked = app.model.jobs[0].request
        assert asked is not None
        assert asked.tools[0].parameters == {"type": "object"}
        assert seen[0].tools[0].parameters == {}


def test_a_rail_that_never_answers_keeps_nobody_else_waiting() -> None:
    forever = {"default": {"screen": {"bad": {"budget_s": 1}}}}
    with around(Bad(lambda r: asyncio.sleep(600)), policies=forever) as app, ThreadPoolExecutor(1) as pool:
        bad = pool.submit(app.ask, "bad", stream=False)
        assert app.ask("good", stream=False).text == "Hello back"
        assert bad.result().status == 500


def test_a_rail_is_not_charged_for_what_others_keep_the_event_loop_for() -> None:
    """One caller's text keeps the loop for twice the budget, while the same rail has answered another caller."""
    waits, is_kept = asyncio.Event(), asyncio.Event()

    def keep() -> None:
        is_kept.set()  # who waits goes on when the loop comes to it
        time.sleep(2 * BUDGET_S)

    async def keeping(request: Request) -> ScreenResult:
        await waits.wait()
        keep()
        return ScreenResult()

    class Slower(Bad):
        async def screen(self, request: Request, caller: Any) -> Any:
            if request.messages[0].content == "good":
                waits.set()
                await is_kept.wait()
            return await super().screen(request, caller)

    budget = {"default": {"screen": {"bad": {"budget_s": BUDGET_S}}}}
    with around(Slower(keeping), policies=budget) as app, ThreadPoolExecutor(1) as pool:
        bad = pool.submit(app.ask, "bad", stream=False)
        assert app.ask("good", stream=False).text == "Hello back"
        assert bad.result().status == 500


class MessagesOnly:
    """A rail of before: it looks at the contents of messages and nowhere else."""

    async def screen(self, request: Request, caller: Any) -> ScreenResult:
        said = [message.content for message in request.messages]
        if not any("halberd" in text for text in said):
            return ScreenResult()
        changed = tuple(Message(m.role, m.content.replace("halberd", "***"), m.name) for m in request.messages)
        return ScreenResult("redact", "found", changed)


def test_a_rail_that_knows_messages_only_sees_everything() -> None:
    """What it replaces beside the messages is replaced where it stood, or refuses."""
    with around(MessagesOnly()) as app:
        function = {"name": "f", "description": "the halberd", "parameters": {"type": "object"}}
        assert app.ask("good", stream=False, tools=[{"type": "function", "function": function}]).status == 200
        asked = app.model.jobs[-1].request
        assert asked is not None
        assert asked.tools[0].description == "the ***"
        reply = app.ask("good", stream=False, stop=["halberd"])
        assert (reply.status, (reply.error or {})["code"]) == (400, "content_filter")
        assert "`stop[0]` must stay as it is" in (reply.error or {})["message"]


class Fragile:
    """Fails on one caller's texts alone."""

    def __init__(self) -> None:
        self.dead = False

    async def screen(self, request: Request, caller: Any) -> ScreenResult:
        if self.dead or "rude" in request.messages[0].content:  # no word of the random hexadecimal digits of a trial
            raise RuntimeError("cannot read this")
        return ScreenResult()


def test_a_callers_texts_open_no_breaker_and_a_dead_rail_does() -> None:
    rail = Fragile()
    terms = {"default": {"screen": {"bad": {"failures_to_open": 2, "pause_s": 60}}}}
    with around(rail, policies=terms) as app:
        assert [app.ask(f"rude {i}", stream=False).status for i in range(8)] == [500] * 8
        assert app.ask("good", stream=False).text == "Hello back"
        rail.dead = True
        assert [app.ask("good", stream=False).status for _ in range(4)] == [500, 500, 503, 503]


def test_large_texts_of_one_tenant_shut_a_detector_for_nobody() -> None:
    """Each is refused with both numbers, or judged beside the event loop; others are answered."""
    with TestApp(pipeline={"screen": ["injection"]}) as app:
        found: list[httpx.Response] = []

        def flood() -> None:
            body = {"model": "scripted", "messages": [{"role": "user", "content": "word " * 400_000}]}
            found.extend(httpx.post(f"{app.url}/v1/chat/completions", json=body, timeout=120) for _ in range(6))

        thread = threading.Thread(target=flood)
        thread.start()
        while thread.is_alive():
            assert app.ask("What is the capital of France?", stream=False).text == "Hello back"
            time.sleep(0.05)
        assert {answer.status_code for answer in found} <= {413, 400}
        assert {answer.json()["error"]["code"] for answer in found} <= {"request_too_large", "context_length_exceeded"}
        assert app.ask("And of Spain?", stream=False).text == "Hello back"


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError(), Rude()], ids=repr)
def test_recorders_that_end_the_process_end_nothing(error: BaseException) -> None:
    class Ending:
        async def record(self, outcome: Any) -> None:
            raise error

    def register(registry: Any) -> None:
        registry.add("record", "ending", lambda _: Ending())

    with TestApp(register, pipeline={"record": ["ending"]}) as app:
        assert app.ask(stream=False).text == "Hello back"
        assert app.ask(stream=False).text == "Hello back"


@pytest.mark.parametrize("stream", [False, True])
def test_a_stage_that_cancels_itself_is_a_failure_of_that_stage(stream: bool) -> None:
    """It looked like a client that had left: nothing of ours answered, and the server said `Internal Server Error`."""

    class Cancelling:
        async def admit(self, *given: Any) -> Any:
            raise asyncio.CancelledError

    def register(registry: Any) -> None:
        registry.add("admit", "cancelling", lambda _: Cancelling())

    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    with TestApp(register, pipeline={"admit": ["cancelling"]}) as app:
        answer = httpx.post(f"{app.url}/v1/chat/completions", json=body, timeout=60)
        assert httpx.get(f"{app.url}/healthz").status_code == 200
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "stage_failed")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("place", ["open", "feed", "close"])
@pytest.mark.parametrize(
    "error",
    [RuntimeError("no"), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Rude()],
    ids=lambda e: type(e).__name__,
)
def test_an_output_rail_that_ends_the_process_is_a_rail_that_failed(
    error: BaseException, place: str, stream: bool
) -> None:
    """Others than `RuntimeError` cut the stream without a mark, or were a failure of nobody."""

    class Session:
        def feed(self, text: str) -> Verdict:
            if place == "feed":
                raise error
            return Verdict(0)

        def close(self) -> Verdict:
            raise error

    class Ending:
        name = "ending"

        def open(self, *given: Any) -> Session:
            if place == "open":
                raise error
            return Session()

    def register(registry: Any) -> None:
        registry.add("moderate", "ending", lambda _: Ending())

    with TestApp(register, pipeline={"moderate": ["ending"]}) as app:
        reply = app.ask(stream=stream)
        assert (reply.text, reply.finish_reason) == ("", "content_filter"), reply
        tried = app.client.post("/admin/rails/try", json={"text": "Hello"})
        assert [one["action"] for one in tried.json()["data"] if one["rail"] == "ending"] == ["failed"], tried.text
        for _ in range(6):  # past what opens the breaker, and tries the rail on a text of ours
            judged = app.client.post("/v1/moderations", json={"input": "Hello"})
            assert judged.json()["error"]["code"] == "stage_failed"
            app.ask(stream=stream)
        assert judged.status_code == 503
        assert app.client.get("/healthz").status_code == 200


def test_code_that_keeps_the_event_loop_is_named_while_it_does(caplog: pytest.LogCaptureFixture) -> None:
    """All requests waited for a rail that did not await, and nothing said for which."""

    def waits(request: Request) -> ScreenResult:
        until(lambda: "the event loop stands still" in caplog.text)
        return ScreenResult()

    with around(Bad(waits)) as app:
        assert app.ask("bad, and secret", stream=False).text == "Hello back"
    [said] = [line for line in caplog.messages if "stands still" in line]
    assert re.search(r"test_plugins\.py:\d+ waits < test_plugins\.py:\d+ screen < ", said)
    assert "secret" not in said


HALF = "\ud800"
"""Half of a surrogate pair, which no encoding can send: a rail gets it by cutting a text as JSON spells it."""


@pytest.mark.parametrize(
    "verdict",
    [
        lambda end: Verdict(0, block=HALF),
        lambda end: Verdict(end, escalate=HALF),
        lambda end: Verdict(end, scores=((HALF, 0.5),)),
        lambda end: Verdict(end, redact=(Span(0, 1, HALF),)),
        lambda end: Verdict(end, redact=(Span(0, 1, "x", HALF),)),
    ],
)
def test_a_verdict_that_nobody_can_be_sent_is_none(verdict: Any) -> None:
    """It made the answer a 500, and the console's list of requests as long as the request stood in it."""

    class Session:
        def __init__(self) -> None:
            self._end = 0

        def feed(self, text: str) -> Verdict:
            self._end += len(text)
            found: Verdict = verdict(self._end)
            return found

        def close(self) -> Verdict:
            found: Verdict = verdict(self._end)
            return found

    class Odd:
        name = "odd"

        def open(self, *given: Any) -> Session:
            return Session()

    with TestApp(
        lambda registry: registry.add("moderate", "odd", lambda _: Odd()), pipeline={"moderate": ["odd"]}
    ) as app:
        for stream in (False, True):
            reply = app.ask(stream=stream)
            assert (reply.text, reply.finish_reason) == ("", "content_filter"), reply
        assert app.client.post("/v1/moderations", json={"input": "Hello"}).json()["error"]["code"] == "stage_failed"
        assert app.client.post("/admin/rails/try", json={"text": "Hello"}).json()["data"][-1]["action"] == "failed"
        assert app.client.get("/admin/console/requests").status_code == 200


@pytest.mark.parametrize(
    ("result", "status", "code"),
    [
        (lambda request: ScreenResult("block", HALF, told=HALF), 400, "content_filter"),
        (lambda request: ScreenResult(marks=(Mark(HALF, ("messages", 0, "content"), 0, 1),)), 500, "stage_failed"),
        (lambda request: ScreenResult(restore={"<A>": HALF}), 500, "stage_failed"),
        (
            lambda request: ScreenResult(
                "redact", "x", messages=tuple([replace(m, content=HALF) for m in request.messages])
            ),
            500,
            "stage_failed",
        ),
    ],
)
def test_what_an_input_rail_says_can_be_sent_or_is_a_failure_of_it(result: Any, status: int, code: str) -> None:
    class Odd:
        async def screen(self, request: Request, caller: Any) -> Any:
            return result(request)

    with TestApp(lambda registry: registry.add("screen", "odd", lambda _: Odd()), pipeline={"screen": ["odd"]}) as app:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "Hello"}]}
        answer = app.client.post("/v1/chat/completions", json=body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
        assert app.client.post("/admin/rails/try", json={"text": "Hello"}).status_code == 200
        assert app.client.get("/admin/console/requests").status_code == 200
