"""The built-in stages as configuration makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sluicegate.plugins import ConfigurationError, Message, Registry, Request
from sluicegate.safety import MatchRail, MatchScreen, register
from tests.safety.driving import CALLER, REQUEST, run


def build(slot: str, name: str, **settings: Any) -> Any:
    registry = Registry()
    registry.register_from("safety", register)
    return registry.build(slot, name, settings)


def test_a_blocklist_takes_phrases_and_a_file(tmp_path: Path) -> None:
    listed = tmp_path / "phrases.txt"
    listed.write_text("# ours\n\nblue heron\n", encoding="utf-8")
    rail = build("moderate", "blocklist", phrases=["zebra"], path=str(listed), replacement="<{label}>")
    assert isinstance(rail, MatchRail)
    assert run(["a zebra and a Blue\nHeron"], rail)[0] == "a <blocklist> and a <blocklist>"


def test_patterns_have_labels_and_an_action_each() -> None:
    rail = build("moderate", "patterns", patterns={"ticket": "TK-\\d+", "host": "(?i)db\\d"}, actions={"host": "block"})
    assert run(["TK-12 on DB1 ok"], rail)[:2] == ("[REDACTED] on ", "host")


def test_a_rail_leaves_other_channels_alone() -> None:
    rail = build("moderate", "blocklist", phrases=["zebra"], channels=["reasoning"])
    assert run(["zebra"], rail)[0] == "zebra"


def ask(*messages: Message) -> Request:
    return Request(id="r", model="m", messages=messages)


async def test_messages_are_passed_redacted_or_blocked_before_anything_is_generated() -> None:
    screen = build("screen", "blocklist", phrases=["zebra", "emu"])
    assert isinstance(screen, MatchScreen)
    assert (await screen.screen(REQUEST, CALLER)).action == "pass"
    redacted = await screen.screen(ask(Message("user", "a zebra, an emu", "bob"), Message("user", "hi")), CALLER)
    assert redacted.action == "redact"
    assert redacted.messages == (Message("user", "a [REDACTED], an [REDACTED]", "bob"), Message("user", "hi"))
    strict = build("screen", "blocklist", phrases=["zebra"], action="block", roles=["user"])
    assert (await strict.screen(ask(Message("user", "zebra")), CALLER)).action == "block"
    assert (await strict.screen(ask(Message("system", "zebra")), CALLER)).action == "pass"


@pytest.mark.parametrize(
    ("slot", "name", "settings", "said"),
    [
        (
            "moderate",
            "blocklist",
            {"phrase": ["a"]},
            "has no 'phrase'; did you mean 'phrases'? Valid names: phrases, path, word_borders, evasions, label",
        ),
        ("screen", "blocklist", {"phrases": ["a"], "channels": []}, "has no 'channels'; valid names: phrases, path"),
        ("moderate", "blocklist", {"phrases": "a"}, "list of strings"),
        ("moderate", "blocklist", {}, "1 to"),
        ("moderate", "blocklist", {"path": "no/such/file"}, "cannot be read"),
        ("moderate", "blocklist", {"phrases": ["a"], "action": "warn"}, "redact, escalate, block"),
        ("moderate", "blocklist", {"phrases": ["a"], "channels": ["audio"]}, "reasoning, tool_name, tool_arguments"),
        ("moderate", "patterns", {}, "no patterns"),
        ("moderate", "patterns", {"patterns": {"a": "("}}, "pattern 'a'"),
        (
            "moderate",
            "patterns",
            {"patterns": {"a": "x"}, "actions": {"b": "block"}},
            "patterns.actions] has no 'b'; valid names: a",
        ),
        ("moderate", "patterns", {"patterns": ["a"]}, "must be a table"),
    ],
)
def test_wrong_settings_are_named_with_the_right_ones(
    slot: str, name: str, settings: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        build(slot, name, **settings)
    assert said in str(refused.value)
