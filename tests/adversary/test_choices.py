"""Several choices, thoughts and calls in one answer: of one that is stopped nothing more leaves on any channel,
and the others go on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from tests.adversary.joining import Liar, between, call, chat, say, think
from tests.adversary.test_what_leaves import ways_of_chat

STOPPED, OTHER = 0, 1


def of(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": reason}


@pytest.fixture(scope="module")
def liar() -> Liar:
    return Liar()


@pytest.fixture(scope="module")
def blocking(liar: Liar, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    with between(liar, action="block", batches={"path": str(tmp_path_factory.mktemp("batches"))}) as found:
        yield found


def choices_of(raw: str) -> list[dict[str, Any]]:
    """Return what the body or the stream says of choices, one after the other."""
    lines = [line.removeprefix("data: ") for line in raw.splitlines()]
    bodies = [json.loads(line) for line in lines if line.startswith("{")]
    bodies = [body.get("response", {}).get("body", body) for body in bodies]
    return [choice for body in bodies for choice in body.get("choices", ())]


def ends(raw: str) -> dict[int, str]:
    return {choice["index"]: choice["finish_reason"] for choice in choices_of(raw) if choice["finish_reason"]}


STOPS = {
    "content": [say("the hal"), say("berd is")],
    "thoughts": [think("the hal"), think("berd is")],
    "arguments": [call('{"a": "the hal'), call('berd is"}', name=None)],
    "a name": [call('{"a": 1}', name="halberd")],
}
HELD = {"content": say("sesame proj"), "thoughts": think("sesame proj")}
"""What another text of that choice holds when it is stopped."""


@ways_of_chat
@pytest.mark.parametrize("where", STOPS)
def test_a_choice_that_is_stopped_says_nothing_more_on_any_channel(
    blocking: TestApp, liar: Liar, way: Any, where: str
) -> None:
    tools = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("look", "halberd")
    ]
    behind = [say("open"), think("open"), call('{"a": "open"}', index=7), call('{"b": "open"}', index=8)]
    frames = [*(of(STOPPED, step) for step in STOPS[where]), of(OTHER, say("half ")), *(of(STOPPED, s) for s in behind)]
    liar.sends(*frames, of(STOPPED, {}, "tool_calls"), of(OTHER, say("a loaf")), of(OTHER, {}, "stop"))
    _, raw = way[0](blocking, way[1], True, n=2, tools=tools)
    assert ends(raw) == {STOPPED: "content_filter", OTHER: "stop"}
    assert "berd" not in raw
    assert "open" not in raw
    joined = "".join(
        (choice.get("delta") or choice.get("message") or {}).get("content") or ""
        for choice in choices_of(raw)
        if choice["index"] == OTHER
    )
    assert joined == "half a loaf"


@ways_of_chat
@pytest.mark.parametrize(("held", "where"), [("content", "thoughts"), ("thoughts", "content")])
def test_what_other_texts_hold_when_a_choice_is_stopped_never_leaves(
    blocking: TestApp, liar: Liar, way: Any, held: str, where: str
) -> None:
    steps = [HELD[held], *STOPS[where], say("ect nightjar") if held == "content" else think("ect nightjar")]
    liar.sends(*(of(STOPPED, step) for step in steps), of(STOPPED, {}, "stop"), of(OTHER, say("ok"), "stop"))
    _, raw = way[0](blocking, way[1], True, n=2)
    assert ends(raw)[STOPPED] == "content_filter"
    for part in ("proj", "nightjar", "berd"):
        assert part not in raw


@pytest.mark.parametrize("stream", [False, True])
def test_a_choice_that_waits_for_a_person_holds_its_calls_and_the_other_goes_on(
    liar: Liar, stream: bool, tmp_path: Any
) -> None:
    with between(liar, action="escalate", review={"path": str(tmp_path / "held.sqlite3")}) as app:
        liar.sends(
            of(STOPPED, say("the hal")), of(OTHER, say("half ")), of(STOPPED, think("x")), of(STOPPED, say("berd is")),
            of(STOPPED, call('{"a": "open"}')), of(OTHER, say("a loaf")), of(STOPPED, {}, "tool_calls"),
            of(OTHER, {}, "stop"),
        )  # fmt: skip
        _, raw = chat(app, stream, True, n=2)
    assert ends(raw)[OTHER] == "stop"
    for part in ("berd", "open", '"look"'):
        assert part not in raw


@pytest.mark.parametrize("stream", [False, True])
def test_of_a_choice_that_is_stopped_no_log_probability_leaves_behind_its_end(
    blocking: TestApp, liar: Liar, stream: bool
) -> None:
    def step(index: int, text: str) -> dict[str, Any]:
        entry = {"token": text, "logprob": -1, "bytes": None, "top_logprobs": []}
        return {**of(index, say(text)), "logprobs": {"content": [entry]}}

    liar.sends(
        step(STOPPED, "the "), step(STOPPED, "hal"), step(OTHER, "half "), step(STOPPED, "berd"),
        step(STOPPED, " open"), step(OTHER, "loaf"), of(STOPPED, {}, "stop"), of(OTHER, {}, "stop"),
    )  # fmt: skip
    _, raw = chat(blocking, stream, False, n=2, logprobs=True)
    told_of = {STOPPED: "", OTHER: ""}
    for choice in choices_of(raw):
        told_of[choice["index"]] += "".join(e["token"] for e in (choice.get("logprobs") or {}).get("content") or ())
    assert told_of == {STOPPED: "the ", OTHER: "half loaf"}
    assert "open" not in raw


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_two_choices_are_texts_of_their_own(blocking: TestApp, liar: Liar, stream: bool) -> None:
    """The same number of a call in two choices is two calls."""
    liar.sends(
        of(STOPPED, call('{"a": "the hal')), of(OTHER, call('{"a": "half')), of(STOPPED, call('berd"}', name=None)),
        of(OTHER, call(' a loaf"}', name=None)), of(STOPPED, {}, "tool_calls"), of(OTHER, {}, "tool_calls"),
    )  # fmt: skip
    _, raw = chat(blocking, stream, True, n=2)
    assert ends(raw) == {STOPPED: "content_filter", OTHER: "tool_calls"}
    assert "berd" not in raw
    arguments = "".join(
        made["function"].get("arguments") or ""
        for choice in choices_of(raw)
        if choice["index"] == OTHER
        for made in (choice.get("delta") or choice.get("message") or {}).get("tool_calls") or ()
    )
    assert json.loads(arguments) == {"a": "half a loaf"}
