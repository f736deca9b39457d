"""Stages of plug-ins other than rails: whatever they raise, answer or never answer ends their own request, with a typed
error."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from sluicegate.gateway import reload
from sluicegate.gateway.rails import stage_calls
from sluicegate.gateway.testing import AppReply, TestApp
from sluicegate.plugins import Caller, Job, Piece, ScreenResult, TokenLogprob, TokenScores, Usage, Verdict
from sluicegate.plugins.testing.doubles import FakeModel
from sluicegate.safety import RAIL_FAILURES


class Rude(BaseException):
    pass


ENDINGS = [SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError(), Rude()]
METHODS = {"admit": "admit", "route": "route", "retrieve": "retrieve", "assemble": "assemble", "constrain": "compile"}
MANY = 200_000
"""Pieces that take longer than the deadline of a test; whole answers end, so that a test without it does."""
FIELDS: Mapping[str, Any] = {"response_format": {"type": "json_object"}}


def raising(error: BaseException) -> Callable[..., Any]:
    async def act(*given: Any) -> Any:
        raise error

    return act


def answering(found: Any) -> Callable[..., Any]:
    async def act(*given: Any) -> Any:
        return found

    return act


async def hanging(*given: Any) -> Any:
    await asyncio.sleep(3_600)


def around(slot: str, act: Callable[..., Any]) -> TestApp:
    """Make a gateway whose stage of `slot` does what `act` does."""
    stage = type("Stage", (), {METHODS.get(slot, slot): staticmethod(act), "unconstrained": None})()

    def register(registry: Any) -> None:
        registry.add(slot, "bad", lambda _: stage)

    settings = {"retrieval": {"always": True, "timeout_s": 0.2}} if slot == "retrieve" else {}
    return TestApp(register, pipeline={slot: ["bad"]}, settings=settings)


def failure(reply: AppReply) -> tuple[int, str]:
    """Return the status and the code. The message shows callers no name of our code, or of a plug-in's."""
    assert reply.error is not None, reply
    assert not re.search(r"\(\)|[a-z](Error|Exit|Exception|Interrupt)\b|Rude|NoneType", reply.error["message"])
    assert re.search("; (send the request again|nothing that it had not judged was sent)", reply.error["message"])
    return reply.status, reply.error["code"]


def causes(caplog: pytest.LogCaptureFixture) -> str:
    """Return the causes of failed requests, as operators read them in the log."""
    return "\n".join(line for line in caplog.messages if line.startswith("request ") and " failed: " in line)


@pytest.mark.parametrize("error", ENDINGS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("slot", METHODS)
def test_a_stage_that_ends_the_process_fails_by_name(
    slot: str, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    """`GeneratorExit` looked like a client that had left; a retriever's `SystemExit` ended the gateway."""
    with around(slot, raising(error)) as app:
        for _ in range(2):
            found = failure(app.ask(stream=False, **FIELDS))
            assert found in ((500, "stage_failed"), (502, "retrieval_failed"))
    assert causes(caplog).count(f"{METHODS[slot]}() raised {type(error).__name__}") == 2


@pytest.mark.parametrize("slot", METHODS)
def test_a_stage_that_never_answers_holds_its_request_for_a_bounded_time(
    slot: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(stage_calls, "LONGEST_S", 0.2)
    with around(slot, hanging) as app:
        _, code = failure(app.ask(stream=False, **FIELDS))
    assert code in ("stage_failed", "retrieval_failed")
    assert f"{METHODS[slot]}() took longer than 0.2 s" in causes(caplog)


def test_a_recorder_that_never_answers_holds_its_request_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_calls, "LONGEST_S", 0.2)
    with around("record", hanging) as app:
        assert app.ask(stream=False).text == "Hello back"
        assert app.ask().text == "Hello back"


@pytest.mark.parametrize("error", ENDINGS, ids=lambda e: type(e).__name__)
def test_a_recorder_that_ends_the_process_harms_no_request(error: BaseException) -> None:
    with around("record", raising(error)) as app:
        assert app.ask(stream=False).text == "Hello back"


@pytest.mark.parametrize(
    ("slot", "found", "said"),
    [
        ("admit", None, "admit() answered NoneType, expected Caller"),
        ("admit", Caller(models="scripted"), "a Caller whose `models` is a str"),  # type: ignore[arg-type]
        ("admit", Caller(tenant=7), "a Caller whose `tenant` is a int"),  # type: ignore[arg-type]
        ("route", None, "route() answered NoneType, expected str"),
        ("route", "nobody", "route() answered 'nobody', which is none of the models that it may name"),
        ("assemble", "a prompt", "assemble() answered str, expected Prompt"),
        ("constrain", None, "compile() answered NoneType, expected CompiledGrammar"),
    ],
)
def test_what_a_stage_may_not_answer_is_named(
    slot: str, found: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with around(slot, answering(found)) as app:
        assert failure(app.ask(stream=False, **FIELDS)) == (500, "stage_failed")
    assert said in causes(caplog)


@pytest.mark.parametrize("slot", METHODS)
def test_a_stage_that_is_no_coroutine_says_so(slot: str, caplog: pytest.LogCaptureFixture) -> None:
    with around(slot, lambda *given: 7) as app:
        failure(app.ask(stream=False, **FIELDS))
    assert f"{METHODS[slot]}() answered int, nothing to await; write `async def`" in causes(caplog)


class Generation:
    """Answers `Hello`, and does what `act` says at `place`."""

    timeline = None

    def __init__(self, place: str, act: Callable[[], Any]) -> None:
        self._place, self._act = place, act

    async def begin(self) -> None:
        self._at("begin")

    async def __aiter__(self) -> AsyncIterator[Any]:
        yield Piece(0, "Hello")
        if self._place == "piece":
            yield self._act()
        for _ in range(MANY if self._place == "endless" else 0):
            yield Piece(0, " word")
        if self._place == "hang":
            await asyncio.sleep(3_600)
        self._at("middle")
        if self._place != "no end":
            yield Piece(0, finish_reason="stop")

    def cancel(self) -> None:
        self._at("cancel")

    @property
    def usage(self) -> Any:
        return self._at("usage") or Usage(5, 3)

    def _at(self, place: str) -> Any:
        return self._act() if place == self._place else None


class Model:
    def __init__(self, place: str, act: Callable[[], Any]) -> None:
        self.models = {"scripted": FakeModel()}
        self._place, self._act = place, act

    async def generate(self, job: Job) -> Any:
        return self._act() if self._place == "generate" else Generation(self._place, self._act)

    def stats(self) -> Mapping[str, float]:
        return {}


def generating(place: str, act: Callable[[], Any] = lambda: None, *, beside: bool = False) -> TestApp:
    """Make a gateway around a `Model`; `beside`: another generator runs beside it."""

    def register(registry: Any) -> None:
        registry.add("generate", "bad", lambda _: Model(place, act))

    return TestApp(register, pipeline={"generate": ["bad", "scripted"] if beside else ["bad"]}, names=("other",))


def throws(error: BaseException) -> Callable[[], Any]:
    def act() -> Any:
        raise error

    return act


def ends_badly(
    app: TestApp, caplog: pytest.LogCaptureFixture, said: str, codes: tuple[str, ...] = ("generation_failed",)
) -> None:
    """Check whole answers and streams for an error; a stream begins, and says it in its last event."""
    for stream in (False, True):
        reply = app.ask(stream=stream)
        assert failure(reply)[1] in codes
        assert reply.finish_reason is None
    app.wait_for_outcomes(2)
    assert causes(caplog).count(said) == 2


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("error", [*ENDINGS, RuntimeError("no")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("place", ["generate", "begin", "middle"])
def test_a_generator_that_ends_the_process_fails_by_name(
    place: str, error: BaseException, beside: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with generating(place, throws(error), beside=beside) as app:
        ends_badly(app, caplog, type(error).__name__, ("generation_failed", "stage_failed"))


@pytest.mark.parametrize(
    ("piece", "said"),
    [
        (None, "a NoneType, expected Piece"),
        ("text", "a str, expected Piece"),
        (Piece(1, "x"), "a piece of choice 1 of 1"),
        (Piece(-1, "x"), "a piece of choice -1 of 1"),
        (Piece("0", "x"), "a piece of choice '0' of 1"),  # type: ignore[arg-type]
        (Piece(0, b"x"), "no Unicode string"),  # type: ignore[arg-type]
        (Piece(0, "\ud800"), "no Unicode string"),
        (Piece(0, "x", finish_reason="done"), "finish_reason 'done', expected one of stop,"),  # type: ignore[arg-type]
        (Piece(0, "x", closed="yes"), "`closed`"),  # type: ignore[arg-type]
        (Piece(0, "x", call=-1), "`call`"),
        (Piece(0, "x", channel=[]), "`channel` is a list"),  # type: ignore[arg-type]
        (Piece(0, "x", logprobs=7), "`logprobs`"),  # type: ignore[arg-type]
        (Piece(0, "x", logprobs=(TokenLogprob(1, "x", "x", 0.5),)), "`logprobs`"),  # type: ignore[arg-type]
        (Piece(0, "x", logprobs=(TokenLogprob(1, "x", b"x", -0.5, ((1, "x"),)),)), "`logprobs`"),  # type: ignore[arg-type]
        (Piece(0, "x", probed=(1, 2)), "`probed`"),  # type: ignore[arg-type]
        (Piece(0, "x", probed=[{}]), "`probed`"),
        (Piece(0, "xy", probed=({}, {}), joined=((1, 1), (2, 1))), "`joined`"),
        (Piece(0, "xy", probed=TokenScores({"harm": [0.0, 1.0]}), joined=((1, 1), (2, 1))), "`joined`"),
        (Piece(0, "xy", probed=({}, {}), joined=((1, 1), (1, 0))), "`joined`"),
        (Piece(0, "xy", probed=({}, {}), joined=((-1, 1), (3, 1))), "`joined`"),
        (Piece(0, "xy", probed=({}, {}), joined=[(2, 2)]), "`joined`"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_a_piece_that_is_none_is_named(piece: Any, said: str, caplog: pytest.LogCaptureFixture) -> None:
    with generating("piece", lambda: piece) as app:
        ends_badly(app, caplog, said)


def test_a_generation_that_ends_without_a_reason_is_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """It was answered with 200 and the finish reason `cancelled`, or by a stream that just ended."""
    with generating("no end") as app:
        ends_badly(app, caplog, "choice 0 has no finish_reason")


def test_what_is_no_generation_is_named(caplog: pytest.LogCaptureFixture) -> None:
    with generating("generate", lambda: "text") as app:
        ends_badly(app, caplog, "generate() answered str, which has no begin()", ("stage_failed",))


@pytest.mark.parametrize("error", [*ENDINGS, RuntimeError("no")], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("place", ["cancel", "usage"])
def test_a_generation_whose_books_fail_is_answered_and_recorded(place: str, error: BaseException) -> None:
    with generating(place, throws(error)) as app:
        assert app.ask(stream=False).text == "Hello"
        assert app.ask().text == "Hello"
        assert len(app.wait_for_outcomes(2)) == 2


def test_a_generation_that_hangs_ends_with_the_request_s_time() -> None:
    with generating("hang") as app:
        for stream in (False, True):
            reply = app.ask(stream=stream, sluicegate={"deadline_s": 0.3})
            assert reply.error is not None
            assert reply.error["code"] == "deadline_exceeded"


def test_a_generation_that_never_waits_leaves_the_others_their_turns() -> None:
    """Its pieces kept the event loop until they ended, or for ever: no other request, and no deadline, came to act."""
    with generating("endless") as app:
        for stream in (False, True):
            reply = app.ask(stream=stream, sluicegate={"deadline_s": 0.3})
            assert reply.error is not None
            assert reply.error["code"] == "deadline_exceeded"


@pytest.mark.parametrize("error", ENDINGS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("place", ["open", "follow", "feed"])
def test_an_output_rail_that_ends_the_process_fails_moderations_by_name(place: str, error: BaseException) -> None:
    class Session:
        def feed(self, text: str) -> Verdict:
            raise error

        close = feed

    class Ending:
        name = "ending"

        def open(self, *given: Any) -> Any:
            if place == "open":
                raise error
            return Session()

    class Judging(Ending):
        def follow(self, *given: Any) -> Any:
            raise error

    def register(registry: Any) -> None:
        registry.add("moderate", "ending", lambda _: Judging() if place == "follow" else Ending())

    with TestApp(register, pipeline={"moderate": ["ending"]}) as app:
        for _ in range(2):
            answer = app.client.post("/v1/moderations", json={"input": "some text"})
            assert (answer.status_code, answer.json()["error"]["code"]) == (500, "stage_failed")
        if place == "follow" and isinstance(error, RAIL_FAILURES):
            assert failure(app.ask(stream=False))[1] == "stage_failed"


class Living:
    """An input rail with a life; its `start` and `close` do what is said."""

    def __init__(self, start: Callable[..., Any], close: Callable[..., Any]) -> None:
        self._start, self._close = start, close

    async def screen(self, *given: Any) -> Any:
        return ScreenResult()

    async def start(self) -> None:
        await self._start()

    async def close(self) -> None:
        await self._close()


@pytest.mark.parametrize("error", ENDINGS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("place", ["start", "close", "factory", "hang in start", "hang in close"])
def test_a_reloaded_stage_that_ends_the_process_ends_nothing(
    place: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`SystemExit` of a stage that was closed ended the gateway; a `start` that hung kept all later reloads waiting."""
    monkeypatch.setattr(reload, "LONGEST_START_S", 0.2)
    monkeypatch.setattr(stage_calls, "LONGEST_S", 0.2)
    fails = raising(error) if place in ("start", "close") else hanging
    made: list[Living] = []

    def factory(table: Any) -> Living:
        if made and place == "factory" and not isinstance(error, KeyboardInterrupt | Rude):
            raise error
        starts = fails if made and place in ("start", "hang in start") else answering(None)
        closes = fails if place in ("close", "hang in close") else answering(None)
        made.append(Living(starts, closes))
        return made[-1]

    def register(registry: Any) -> None:
        registry.add("screen", "living", factory)

    app = TestApp(register, pipeline={"screen": ["living"]})
    app.runtime.reloader.source = lambda: app.runtime.settings
    with app:
        for _ in range(2):
            reloaded = app.client.post("/admin/reload")
            if place in ("start", "hang in start"):
                assert (reloaded.status_code, reloaded.json()["error"]["code"]) == (400, "stage_failed")
            assert app.ask(stream=False).text == "Hello back"
