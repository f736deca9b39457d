"""An upstream that cuts what rails forbid into parts, and puts other things between them: no client can join it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import chain
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Piece
from tests.adversary.joining import (
    KEY,
    NAMES,
    WAYS,
    Dialect,
    Liar,
    Speaker,
    batch,
    between,
    call,
    chat,
    completions,
    messages,
    of_chat,
    responses,
    say,
    think,
    ways,
)

LETTERS = "the halberd is long."


BODIES_OF_CHAT = [found for found in zip(WAYS, NAMES, strict=True) if found[0][0] not in (responses, messages)]
ways_of_chat = pytest.mark.parametrize(
    "way", [way for way, _ in BODIES_OF_CHAT], ids=[name for _, name in BODIES_OF_CHAT]
)
"""Those whose body is that of a chat completion."""


def with_between(parts: Sequence[str], other: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parts as content, with `other` after each but the last."""
    return [*chain.from_iterable((say(part), other) for part in parts[:-1]), say(parts[-1])]


@ways
@pytest.mark.parametrize(
    "parts",
    [
        ["the hal", "berd is long."],
        list(LETTERS),
        ["one. the hal", "berd is long. ", "two. project night", "jar ends."],
    ],
    ids=["two parts", "letter by letter", "sentences"],
)
def test_a_phrase_with_thoughts_between_its_parts_is_one_phrase(
    app: TestApp, liar: Liar, way: tuple[Dialect, bool], parts: list[str]
) -> None:
    liar.says(*with_between(parts, think("x")))
    said, raw = way[0](app, way[1], False)
    expected = "".join(parts).replace("halberd", "[REDACTED]").replace("project nightjar", "[REDACTED]")
    assert said["content"] == expected
    assert "berd" not in raw
    assert said["reasoning"] == "x" * (len(parts) - 1)


@ways
def test_a_phrase_with_a_call_between_its_parts_is_one_phrase(
    app: TestApp, liar: Liar, way: tuple[Dialect, bool]
) -> None:
    liar.says(say("the hal"), call('{"a": 1}'), say("berd is"), reason="tool_calls")
    said, raw = way[0](app, way[1], True)
    assert said["content"] == "the [REDACTED] is"
    assert (said["names"], json.loads(said["arguments"])) == ("look", {"a": 1})
    assert "berd" not in raw


@ways_of_chat
def test_a_number_in_json_with_thoughts_inside_is_one_number(
    app: TestApp, liar: Liar, way: tuple[Dialect, bool]
) -> None:
    liar.says(say('{"a":"4111 1111 '), think("x"), say('1111 1111"}'))
    said, raw = way[0](app, way[1], False, response_format={"type": "json_object"})
    assert json.loads(said["content"]) == {"a": "[REDACTED]"}
    assert "4111" not in raw


@ways
def test_thoughts_with_content_between_are_one_text(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    liar.says(think("the hal"), say("x"), think("berd is"), say("y"))
    said, raw = way[0](app, way[1], False)
    assert said["content"] == "xy"
    assert "berd" not in raw
    assert said["reasoning"] == "the [REDACTED] is"


@ways
def test_arguments_of_two_calls_in_turns_are_two_texts(
    spoken: TestApp, speaker: Speaker, way: tuple[Dialect, bool]
) -> None:
    def part(text: str, number: int, tool: str | None = None) -> Piece:
        return Piece(0, text, channel="tool_arguments", call=number, tool=tool)

    speaker.pieces = [
        part('{"a": "the hal', 0, "look"),
        part('{"b": "pro', 1, "look"),
        part('berd is"}', 0),
        part('ject nightjar"}', 1),
        Piece(0, finish_reason="tool_calls"),
    ]
    said, raw = way[0](spoken, way[1], True)
    assert "berd" not in raw
    assert "nightjar" not in raw
    assert said["names"] == "looklook"
    assert said["arguments"].replace(" ", "") == '{"a":"the[REDACTED]is"}{"b":"[REDACTED]"}'


@pytest.mark.parametrize("stream", [True, False])
def test_a_raw_completion_is_its_content_alone(spoken: TestApp, speaker: Speaker, stream: bool) -> None:
    """What a generator says on other channels is not joined to it, streamed or whole."""
    thought = Piece(0, "hmm", channel="reasoning")
    speaker.pieces = [Piece(0, "the hal"), thought, Piece(0, "berd"), thought, Piece(0, " is", finish_reason="stop")]
    said, raw = completions(spoken, stream, False)
    assert said["content"] == "the [REDACTED] is"
    assert "hmm" not in raw


@ways
@pytest.mark.parametrize("channel", ["tool_name", "prose"])
def test_what_comes_on_no_channel_of_pieces_does_not_leave(
    spoken: TestApp, speaker: Speaker, way: tuple[Dialect, bool], channel: Any
) -> None:
    speaker.pieces = [Piece(0, "ok "), Piece(0, "sesame", channel=channel), Piece(0, finish_reason="stop")]
    _, raw = way[0](spoken, way[1], False)
    assert "sesame" not in raw
    assert "generation_failed" in raw or '"api_error"' in raw


@ways
def test_a_text_that_was_called_whole_does_not_go_on(
    spoken: TestApp, speaker: Speaker, way: tuple[Dialect, bool]
) -> None:
    """What was held of it has left, so that a rest cannot be judged with it."""
    over = Piece(0, "the hal", channel="reasoning", ends=True)
    speaker.pieces = [over, Piece(0, "ok"), Piece(0, "berd", channel="reasoning"), Piece(0, finish_reason="stop")]
    said, raw = way[0](spoken, way[1], False)
    assert "berd" not in raw
    assert said.get("reasoning", "") in ("the hal", "")
    assert "generation_failed" in raw or '"api_error"' in raw


@ways
def test_a_block_in_any_text_ends_the_choice(liar: Liar, way: tuple[Dialect, bool], tmp_path: Any) -> None:
    with between(liar, action="block", batches={"path": str(tmp_path)}) as app:
        liar.says(say("the hal"), think("x"), say("berd is"), think("never"))
        said, raw = way[0](app, way[1], False)
    assert said["content"] in ("the ", "")
    assert "berd" not in raw
    assert "never" not in raw


@ways_of_chat
def test_the_name_of_a_call_is_screened_before_the_call_opens(
    app: TestApp, liar: Liar, way: tuple[Dialect, bool]
) -> None:
    """Also where the caller itself named the tool so."""
    tool = {"type": "function", "function": {"name": "halberd", "parameters": {"type": "object"}}}
    liar.says(say("ok"), call('{"a": 1}', name="halberd"), reason="tool_calls")
    said, raw = way[0](app, way[1], True, tools=[tool])
    assert "halberd" not in raw
    assert (said["names"], said["arguments"]) == ("", "")
    assert '"content_filter"' in raw


@ways
def test_a_tool_that_was_not_offered_never_leaves(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    liar.says(call('{"a": "sesame"}', name="open_the_door"), reason="tool_calls")
    _, raw = way[0](app, way[1], True)
    assert "open_the_door" not in raw
    assert "sesame" not in raw
    assert "error" in raw


@ways
def test_a_refusal_of_the_upstream_is_screened(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    liar.says({"refusal": "no hal"}, think("x"), {"refusal": "berd for you"})
    said, raw = way[0](app, way[1], False)
    assert "berd" not in raw
    assert "no [REDACTED] for you" in raw
    assert said["reasoning"] == "x"


@ways
def test_an_answer_cut_short_within_a_secret_keeps_it(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    """One character less than a key is as good as the key."""
    for cut in (1, 3):
        liar.says(say("The key is AKIA"), say(KEY[4:-cut]), reason="length")
        said, raw = way[0](app, way[1], False)
        assert said["content"] == "The key is [REDACTED]"
        assert KEY[:-cut] not in raw


def test_a_secret_cut_short_by_the_callers_stop_string_stays_too(app: TestApp, liar: Liar) -> None:
    liar.says(say("The key is AKIA"), say(KEY[4:-1]))
    assert chat(app, True, False)[0]["content"] == "The key is " + KEY[:-1]  # the model ended by itself: no key
    assert chat(app, True, False, stop=["E"])[0]["content"] == "The key is [REDACTED]"


def test_a_structured_answer_cut_short_within_a_secret_keeps_it(app: TestApp, liar: Liar) -> None:
    liar.says(say('{"a":"AKIA'), think("x"), say(KEY[4:-1]), reason="length")
    _, raw = chat(app, True, False, response_format={"type": "json_object"})
    assert "IOSFODNN" not in raw
    liar.says(say("12345678"))
    asked = {"structured_outputs": {"regex": "[0-9]{8}"}}  # whole: a number may end it
    assert chat(app, True, False, **asked)[0]["content"] == "12345678"
    assert chat(app, True, False, stop=["\n"])[0]["content"] == "[REDACTED]"


def test_choices_are_texts_of_their_own(app: TestApp, liar: Liar) -> None:
    def of(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "finish_reason": reason}

    liar.sends(
        of(0, say("the hal")), of(1, say("half ")), of(0, think("x")), of(1, think("y")), of(0, say("berd")),
        of(1, say("a loaf")), of(0, {}, "stop"), of(1, {}, "stop"),
    )  # fmt: skip
    for stream in (False, True):
        said, raw = chat(app, stream, False, n=2)
        assert "berd" not in raw
        assert sorted(said["content"]) == sorted("the [REDACTED]half a loaf")


def test_a_kept_answer_is_replayed_through_the_same_windows(liar: Liar) -> None:
    recall = {"recall": ["memory"]}
    with between(liar, pipeline=recall) as app:
        liar.says(say("the hal"), think("x"), say("berd is"))
        first = chat(app, False, False, temperature=0)[0]
        liar.says(say("something else"))
        for stream in (False, True):
            again, raw = chat(app, stream, False, temperature=0)
            assert again == first
            assert "berd" not in raw
    assert first["content"] == "the [REDACTED] is"


def test_what_waits_for_a_person_is_held_across_texts(liar: Liar, tmp_path: Any) -> None:
    review = {"path": str(tmp_path / "held.sqlite3")}
    with between(liar, action="escalate", review=review) as app:
        liar.says(think("a "), say("the hal"), think("b"), say("berd is"), think("c"))
        said, raw = chat(app, True, False)
        assert "berd" not in raw
        assert said["content"] == "the "
        [item] = app.client.get("/admin/review").json()["data"]
        app.client.post(f"/admin/review/{item['id']}/approve", json={})
        result = app.client.get(f"/v1/reviews/{item['id']}").json()["result"]
        assert of_chat([result])["content"] == "the halberd is"
        assert of_chat([result])["reasoning"] == "a bc"


SCRIPT = ["the hal", '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>', "berd is"]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("letters", [True, False])
def test_a_model_of_our_own_that_calls_a_tool_in_the_middle_is_no_way_around(stream: bool, letters: bool) -> None:
    rails = {"moderate": {"blocklist": {"phrases": ["halberd"]}}}
    script = list("".join(SCRIPT)) if letters else SCRIPT
    with TestApp(pipeline={"moderate": ["blocklist"]}, stages=rails, script=script) as app:
        said, raw = chat(app, stream, True, model="scripted")
    assert said["content"] == "the [REDACTED] is"
    assert (said["names"], said["arguments"]) == ("look", "{}")
    assert "berd" not in raw


def test_thoughts_of_our_own_models_leave_when_they_are_over() -> None:
    """What they end with is not kept until the answer is: such a model never goes back to its thoughts."""
    rails = {"moderate": {"blocklist": {"phrases": ["halberd"]}}}
    script = ["<think>so hal</think>", "fine ", "then"]
    with TestApp(pipeline={"moderate": ["blocklist"]}, stages=rails, script=script) as app:
        body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "stream": True}
        raw = app.client.post("/v1/chat/completions", json=body | {"reasoning_effort": "low"}).text
    assert (
        of_chat(json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {"))["reasoning"]
        == "so hal"
    )
    assert raw.index("hal") < raw.index("fine")


def probabilities(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"content": [{"logprob": -1, "bytes": None, "top_logprobs": [], **entry} for entry in entries]}


FORGED: dict[str, dict[str, Any]] = {
    "a token beside the text": {"token": "project nightjar"},
    "bytes beside the token": {"token": "ok", "bytes": list(b"project nightjar")},
    "a token beside its bytes": {"token": "project nightjar", "bytes": list(b"ok")},
    "an alternative": {"token": "ok", "top_logprobs": [{"token": "project nightjar", "logprob": -2, "bytes": None}]},
    "bytes of an alternative": {
        "token": "ok",
        "top_logprobs": [{"token": "no", "logprob": -2, "bytes": list(b"project nightjar")}],
    },
    "an alternative beside its bytes": {
        "token": "ok",
        "top_logprobs": [{"token": "project nightjar", "logprob": -2, "bytes": list(b"no")}],
    },
}


@ways
@pytest.mark.parametrize("forged", FORGED.values(), ids=FORGED)
@pytest.mark.parametrize("asked", [True, False])
def test_log_probabilities_say_nothing_that_rails_forbid(
    app: TestApp, liar: Liar, way: tuple[Dialect, bool], forged: dict[str, Any], asked: bool
) -> None:
    if way[0] in (batch, messages) and asked:
        return  # `messages` has no such field; a batch is answered as `chat` is
    liar.says({**say("ok"), "logprobs": probabilities(forged)})
    fields: dict[str, Any] = {"logprobs": True, "top_logprobs": 2} if asked else {}
    if way[0] is responses and asked:
        fields = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    _, raw = way[0](app, way[1], False, **fields)
    assert "nightjar" not in raw
    assert ",".join(map(str, b"nightjar")) not in raw.replace(" ", "")


@pytest.mark.parametrize("stream", [True, False])
def test_log_probabilities_of_text_in_parts_are_those_of_what_was_left(app: TestApp, liar: Liar, stream: bool) -> None:
    """They wait with their text, and those of a redacted phrase stay away although thoughts came in between."""
    parts = ["a pike", ", ", "the ", "hal", "berd", " is", " long"]
    steps = [{**say(part), "logprobs": probabilities({"token": part})} for part in parts]
    liar.says(*chain.from_iterable((step, think("x")) for step in steps))
    _, raw = chat(app, stream, False, logprobs=True)
    lines = raw.splitlines() if stream else ["data: " + raw]
    found = [
        entry["token"]
        for line in lines
        if line.startswith("data: {")
        for choice in json.loads(line[6:])["choices"]
        for entry in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert found == ["a pike", ", ", "the ", " is", " long"]


def test_explained_tokens_say_no_more_than_the_answer(run_gateway: Any) -> None:
    """What a stop string cut off was drawn and not screened; where rails would have stopped it, no token is told."""
    rails = {"moderate": ["blocklist"]}
    asked = {"model": "bundled", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 12}
    explain = {"sluicegate": {"explain": True, "cache": False}, "temperature": 0, "ignore_eos": True}
    with run_gateway({"pipeline": rails, "stages": {"moderate": {"blocklist": {"phrases": ["zzyzx"]}}}}) as gateway:
        whole = httpx.post(f"{gateway.url}/v1/chat/completions", json=asked | explain, timeout=60).json()
    drawn = "".join(step["token"] for step in whole["sluicegate"]["tokens"])
    stop, forbidden = drawn[2:5], drawn[1:5]
    rule = {"patterns": {"forbidden": re.escape(forbidden)}}
    with run_gateway({"pipeline": {"moderate": ["patterns"]}, "stages": {"moderate": {"patterns": rule}}}) as gateway:
        body = {**asked, **explain, "stop": [stop]}
        cut = httpx.post(f"{gateway.url}/v1/chat/completions", json=body, timeout=60).json()
    assert cut["choices"][0]["message"]["content"] == drawn[: drawn.index(stop)]
    shown = "".join(step["token"] for step in cut["sluicegate"].get("tokens", ()))
    assert forbidden not in shown
