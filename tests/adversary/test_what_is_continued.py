"""An answer that goes on from a text that the client sent: the client joins the two, and must not join what is
forbidden."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Piece
from tests.adversary.joining import (
    ASKED,
    KEY,
    WAYS,
    Dialect,
    Liar,
    Said,
    Speaker,
    behind,
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


def continued(dialect: Dialect, app: TestApp, stream: bool, lead: str, **fields: Any) -> tuple[Said, str]:
    """Return the answer of a request whose answer begins with `lead`."""
    begun = [*ASKED, {"role": "assistant", "content": lead}]
    if dialect is completions:
        return completions(app, stream, False, prompt=lead, **fields)
    if dialect is responses:  # nobody asks to go on, and a server does all the same
        return responses(app, stream, False, input=begun, **fields)
    asked = {} if dialect is messages else {"continue_final_message": True}
    return dialect(app, stream, fields.pop("with_tool", False), messages=begun, **asked, **fields)


streamed = pytest.mark.parametrize("stream", [False, True])


@ways
@pytest.mark.parametrize("parts", [["berd is long"], list("berd is long")], ids=["at once", "by letters"])
def test_a_phrase_that_begins_in_what_is_continued_does_not_end_in_the_answer(
    app: TestApp, liar: Liar, way: tuple[Dialect, bool], parts: list[str]
) -> None:
    liar.says(*map(say, parts))
    said, raw = continued(way[0], app, way[1], "Take the hal")
    assert said["content"] == "[REDACTED] is long"
    assert "berd" not in raw


@streamed
@pytest.mark.parametrize("cut", [1, 4, 6])
def test_a_raw_prompt_is_continued(spoken: TestApp, speaker: Speaker, stream: bool, cut: int) -> None:
    for pieces in (["halberd"[cut:] + " is"], list("halberd"[cut:] + " is")):
        speaker.pieces = [*(Piece(0, piece) for piece in pieces), Piece(0, finish_reason="stop")]
        said, raw = continued(completions, spoken, stream, "the " + "halberd"[:cut])
        assert said["content"] == "[REDACTED] is"
        assert f'"{"halberd"[cut:]}' not in raw


@ways
def test_thoughts_between_the_two_parts_change_nothing(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    liar.says(think("x"), say("be"), think("y"), say("rd is"))
    said, raw = continued(way[0], app, way[1], "the hal")
    assert said["content"] == "[REDACTED] is"
    assert said["reasoning"] == "xy"
    assert '"rd' not in raw


@ways
def test_thoughts_may_be_what_is_joined(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    liar.says(think("berd is"), say("ok"))
    said, raw = continued(way[0], app, way[1], "the hal")
    assert "berd" not in raw
    assert said["content"] == "ok"


@ways
def test_a_card_number_and_a_key_are_one_with_their_beginnings(
    app: TestApp, liar: Liar, way: tuple[Dialect, bool]
) -> None:
    for lead, rest in (("pay 4111 1111 ", "1111 1111 now"), ("use " + KEY[:9], KEY[9:] + " now"), ("a@b", ".com now")):
        liar.says(say(rest))
        said, _ = continued(way[0], app, way[1], lead)
        assert said["content"] == "[REDACTED] now"


@ways
def test_what_lies_wholly_in_it_is_the_callers_own(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    liar.says(say(" is long"))
    for lead in ("a halberd", "halberd halberd and", f"{KEY} or"):
        assert continued(way[0], app, way[1], lead)[0]["content"] == " is long"


@ways
def test_the_answer_is_also_read_alone(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    """A letter before it makes another word of a phrase, for who joins them; a body says the phrase."""
    liar.says(say("halberd is long"))
    said, raw = continued(way[0], app, way[1], "x")
    assert said["content"] == "[REDACTED] is long"
    assert "halberd" not in raw


@pytest.mark.parametrize("action", ["block", "escalate"])
def test_a_rail_that_blocks_or_asks_lets_nothing_of_it_leave(liar: Liar, action: str, tmp_path: Any) -> None:
    paths = {"batches": {"path": str(tmp_path / "b")}, "review": {"path": str(tmp_path / "held.sqlite3")}}
    with between(liar, action=action, **paths) as app:
        for dialect, stream in WAYS:
            liar.says(say("be"), say("rd is long"))
            said, raw = continued(dialect, app, stream, "the hal")
            assert said["content"] == ""
            assert "rd is" not in raw
            liar.says(say(" is long"))
            assert continued(dialect, app, stream, "the halberd")[0]["content"] == " is long"


def test_a_reviewer_who_agrees_lets_the_rest_leave(liar: Liar, tmp_path: Any) -> None:
    with between(liar, action="escalate", review={"path": str(tmp_path / "held.sqlite3")}) as app:
        liar.says(say("berd is"))
        assert continued(chat, app, True, "the hal")[0]["content"] == ""
        [item] = app.client.get("/admin/review").json()["data"]
        app.client.post(f"/admin/review/{item['id']}/approve", json={})
        result = app.client.get(f"/v1/reviews/{item['id']}").json()["result"]
        assert of_chat([result])["content"] == "berd is"


@streamed
def test_a_replacement_that_lets_the_phrase_go_on_blocks(liar: Liar, stream: bool) -> None:
    """`hal` + nothing + `berd` would spell it after all."""
    rails = {"blocklist": {"phrases": ["halberd"], "replacement": "", "word_borders": False}}
    with between(liar, stages={"moderate": rails}) as app:
        liar.says(say("berdberd is"))
        said, raw = continued(chat, app, stream, "the hal")
        assert "berd" not in raw
        assert '"content_filter"' in raw
        assert said["content"] == ""


@streamed
def test_each_choice_is_joined_by_itself(app: TestApp, liar: Liar, stream: bool) -> None:
    def of(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "finish_reason": reason}

    liar.sends(
        of(0, say("be")), of(1, say("f a")), of(0, say("rd")), of(1, say(" loaf")), of(0, {}, "stop"), of(1, {}, "stop")
    )
    said, raw = continued(chat, app, stream, "the hal", n=2)
    assert sorted(said["content"]) == sorted("[REDACTED]f a loaf")
    assert '"rd' not in raw


@ways
def test_a_structured_answer_is_joined_as_it_is_spelled(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    """A number behind the beginning of a number; strings begin with a quote, and stay what they are."""
    if way[0] in (responses, messages):
        return
    number = {"structured_outputs": {"json": {"type": "integer"}}}
    liar.says(say("11111"), say("111"))
    said, raw = continued(way[0], app, way[1], "pay 41111111", **number)
    assert "111" not in said["content"]
    assert "11111" not in raw  # three of them stand in many an id
    liar.says(say("12"), say("34"))
    assert continued(way[0], app, way[1], "pay 41", **number)[0]["content"] == "1234"
    liar.says(say('{"a": "my hal'), say('berd"}'))
    said, _ = continued(way[0], app, way[1], "the hal", response_format={"type": "json_object"})
    assert json.loads(said["content"]) == {"a": "my [REDACTED]"}


@ways
def test_a_structured_answer_does_not_go_on_from_a_beginning_of_json(
    app: TestApp, liar: Liar, way: tuple[Dialect, bool]
) -> None:
    if way[0] in (responses, messages):
        return
    liar.says(say("be"), say('rd"}'))
    _, raw = continued(way[0], app, way[1], '{"a": "the hal', response_format={"type": "json_object"})
    assert 'rd"' not in raw.replace("\\", "")


@streamed
def test_a_choice_and_a_pattern_are_joined_too(app: TestApp, liar: Liar, stream: bool) -> None:
    for asked in ({"choice": ["berd", "loaf"]}, {"regex": "[a-z]{4}"}):
        liar.says(say("be"), say("rd"))
        _, raw = continued(chat, app, stream, "the hal", structured_outputs=asked)
        assert '"be' not in raw
        liar.says(say("loaf"))
        assert continued(chat, app, stream, "the hal", structured_outputs=asked)[0]["content"] == "loaf"


@streamed
def test_log_probabilities_and_alternatives_are_read_behind_it(app: TestApp, liar: Liar, stream: bool) -> None:
    def entry(token: str, *others: str) -> dict[str, Any]:
        top = [{"token": other, "logprob": -2, "bytes": None} for other in others]
        return {"content": [{"token": token, "logprob": -1, "bytes": None, "top_logprobs": top}]}

    asked = {"logprobs": True, "top_logprobs": 1}
    liar.says({**say("berd"), "logprobs": entry("berd")}, {**say(" is"), "logprobs": entry(" is")})
    _, raw = continued(chat, app, stream, "the hal", **asked)
    assert "berd" not in raw
    liar.says({**say("f a"), "logprobs": entry("f a", "berd")}, {**say(" loaf"), "logprobs": entry(" loaf")})
    said, raw = continued(chat, app, stream, "the hal", **asked)
    assert said["content"] == "f a loaf"
    assert "berd" not in raw
    two = [{**say(t), "logprobs": entry(t, a)} for t, a in (("f", "ber"), (" a", "d"))]
    liar.says(*two)
    _, raw = continued(chat, app, stream, "the hal", **asked)
    assert not ('"ber"' in raw and '"d"' in raw)


def test_a_kept_answer_is_joined_to_what_this_request_continues(speaker: Speaker) -> None:
    """Found by its meaning, an answer may have been made for another beginning."""
    fields = {"temperature": 0, "sluicegate": {"cache": {"semantic": True, "threshold": 0.3}}}
    speaker.pieces = [Piece(0, "berd is", finish_reason="stop")]
    with behind(speaker, recall={"memory": {"semantic": {"threshold": 0.3}}}) as app:
        assert continued(completions, app, False, "tell the story of hal please", **fields)[0]["content"] == "berd is"
        speaker.pieces = [Piece(0, "something else", finish_reason="stop")]
        for stream in (False, True):
            said, raw = continued(completions, app, stream, "tell the story of hal", **fields)
            assert said["content"] == "[REDACTED] is"
            assert "berd" not in raw


@ways
def test_calls_are_texts_of_their_own(app: TestApp, liar: Liar, way: tuple[Dialect, bool]) -> None:
    if way[0] is responses:
        return
    liar.says(say("berd is"), call('{"a": "berd"}'), reason="tool_calls")
    said, _ = continued(way[0], app, way[1], "the hal", with_tool=True)
    assert said["content"] == "[REDACTED] is"
    assert json.loads(said["arguments"]) == {"a": "berd"}


def test_a_model_of_our_own_goes_on_from_a_prompt() -> None:
    rails = {"moderate": {"blocklist": {"phrases": ["halberd"]}}}
    ask = partial(continued, completions)
    for script in (["berd is"], list("berd is")):
        with TestApp(pipeline={"moderate": ["blocklist"]}, stages=rails, script=script) as app:
            for stream in (False, True):
                said, raw = ask(app, stream, "the hal", model="scripted", max_tokens=50)
                assert said["content"] == "[REDACTED] is"
                assert "berd" not in raw
