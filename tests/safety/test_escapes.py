"""Matches in texts that are spelled by escapes, or spread over messages of one role."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.plugins import Caller, Message, Request, ScreenResult, ToolCall, texts_of
from sluicegate.safety.matching.json_escapes import Unescaped, find_spelled
from sluicegate.safety.rails.match_rails import MatchPolicy, MatchScreen
from sluicegate.safety.rules.blocklist import compile_phrases
from sluicegate.safety.rules.pii import compile_pii
from sluicegate.safety.settings import ROLES

PHRASES = compile_phrases(["halberd papers", "Überläufer"])
MAIL = compile_pii()


def rail(action: str = "redact", automaton: object = PHRASES) -> MatchScreen:
    return MatchScreen("blocklist", automaton, MatchPolicy(action), frozenset(ROLES))  # type: ignore[arg-type]


def judged(by: MatchScreen, request: Request) -> ScreenResult:
    return by.screen_now(request, texts_of(request), Caller())


def screened(*messages: Message, by: MatchScreen | None = None) -> list[str]:
    result = judged(by or rail(), Request("r", "m", messages))
    found = result.messages or messages
    return [message.tool_calls[0].arguments if message.tool_calls else message.content for message in found]


def by_numbers(text: str) -> str:
    """Escape a text as JSON spells UTF-16 units."""
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[i] << 8 | units[i + 1]:04x}" for i in range(0, len(units), 2))


@given(st.text(), st.integers(1, 3))
def test_what_json_says_is_read_however_deep(text: str, layers: int) -> None:
    spelled = text
    for _ in range(layers):
        spelled = json.dumps(spelled)[1:-1]
    for _ in range(layers):
        spelled = Unescaped(spelled).text
    assert spelled == text


@given(st.text(alphabet='ab\\n"u😀', max_size=12), st.text(alphabet='ab\\n"u😀', max_size=12), st.integers(1, 3))
def test_a_phrase_in_json_is_cut_out_of_json(before: str, after: str, layers: int) -> None:
    """What is left is JSON, and says the same without the phrase."""
    said = f"{before} halberd papers {after}"
    spelled = said
    for _ in range(layers):
        spelled = json.dumps(spelled)
    [left] = screened(Message("tool", spelled, tool_call_id="c"))
    for _ in range(layers):
        left = json.loads(left)
    assert left == f"{before} [REDACTED] {after}"


@pytest.mark.parametrize(
    "spelled",
    [
        '{"a": "halberd \\u0070apers"}',
        '{"a": "halberd \\u0070apers", "a": "x"}',
        '{"a": "halberd \\u0070apers"',
        json.dumps({"a": json.dumps({"b": by_numbers("halberd papers")})}),
        json.dumps({"a": "für Überläufer"}),
        json.dumps({by_numbers("halberd papers"): 1}),
        '{"a": "' + by_numbers("halberd papers") + '"}',
        '["😀\\ud83d\\ude00\\ud83d halberd\\npapers"]',
    ],
)
@pytest.mark.parametrize("where", ["content", "arguments"])
def test_escapes_hide_nothing(spelled: str, where: str) -> None:
    call = (ToolCall("c", "f", spelled),)
    message = Message("user", spelled) if where == "content" else Message("assistant", "", tool_calls=call)
    [left] = screened(message)
    assert "[REDACTED]" in left
    assert not find_spelled(PHRASES, left)


def test_a_letter_after_a_line_break_is_no_part_of_the_escape() -> None:
    left = screened(Message("tool", json.dumps({"t": "Hello\nbob@example.org"})), by=rail(automaton=MAIL))
    assert [json.loads(one) for one in left] == [{"t": "Hello\n[REDACTED]"}]


def test_a_path_that_looks_like_escapes_gives_nothing_away() -> None:
    [left] = screened(Message("user", "C:\\bob@example.org"), by=rail(automaton=MAIL))
    assert left == "C:[REDACTED]"


@pytest.mark.parametrize(
    ("messages", "left"),
    [
        (["the halberd", "papers are"], ["the [REDACTED]", "[REDACTED] are"]),
        (["halberd papers, halberd", "papers"], ["[REDACTED], [REDACTED]", "[REDACTED]"]),
        (["a" * 600 + " halberd", "papers " + "b" * 600], ["a" * 600 + " [REDACTED]", "[REDACTED] " + "b" * 600]),
        (["halberd", "", "papers"], ["[REDACTED]", "", "[REDACTED]"]),
        (["halberds", "papers"], ["halberds", "papers"]),
    ],
)
def test_neighbours_of_one_role_are_read_as_one_turn(messages: list[str], left: list[str]) -> None:
    assert screened(*(Message("user", text) for text in messages)) == left


def test_two_roles_are_two_turns_but_developers_are_the_system() -> None:
    assert screened(Message("user", "halberd"), Message("assistant", "papers")) == ["halberd", "papers"]
    both = screened(Message("system", "halberd"), Message("developer", "papers"))
    assert both == ["[REDACTED]", "[REDACTED]"]


def test_what_was_clean_as_a_message_is_read_again_as_an_identifier() -> None:
    long, screen = "use_the_halberd_papers_" + "x" * 60, rail("block")
    message = Message("user", long)
    assert judged(screen, Request("r", "m", (message,))).action == "pass"
    named = Request("r", "m", (Message("user", "Hello", name=long),))
    assert judged(screen, named).action == "block"


@pytest.mark.parametrize("name", ["halberd_papers", "halberdPapers", "x.halberd-papers"])
def test_a_phrase_is_found_in_a_name(name: str) -> None:
    named = Request("r", "m", (Message("user", "Hello", name=name),))
    assert judged(rail("block"), named).action == "block"
