"""Windows for a text that goes on from another: what its reader joins, under every cut."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.plugins import Caller, Channel, Message, RailProperties, Request, Span, Verdict
from sluicegate.safety import (
    HoldbackWindow,
    JsonWindow,
    MatchPolicy,
    MatchRail,
    Scanner,
    UnchangedWindow,
    compile_patterns,
    compile_phrases,
    compile_pii,
    compile_secrets,
    find_all,
)
from sluicegate.safety.matching.scanner import NEAR
from sluicegate.safety.window.continuation import LEAD, RESTARTS

REQUEST = Request(id="r", model="m", messages=(Message("user", "hi"),))
AUTOMATA = [compile_phrases(["halberd", "project nightjar"]), compile_pii(), compile_secrets()]
WORDS = ["hal", "berd", "halberd", " ", "h4l", "\u200b", "x", "project night", "jar", "4111 1111", " 1111 1111", "a@b",
         ".com", "AKIAIOSF", "ODNN7EXAMPLE", ".", "h a l b e r", " d "]  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), max_size=5).map("".join)


def rails(action: str = "redact") -> list[MatchRail]:
    return [MatchRail(f"r{n}", automaton, MatchPolicy(action)) for n, automaton in enumerate(AUTOMATA)]


def out_of(window: HoldbackWindow | JsonWindow, pieces: Sequence[str]) -> tuple[str, str | None, str]:
    """Return (what left, why it was blocked, what waits for a person)."""
    steps = []
    for piece in pieces:
        if window.blocked is None:
            steps.append(window.feed(piece))
    if window.blocked is None:
        steps.append(window.close())
    assert window.held == 0 or window.blocked
    return "".join(s.text for s in steps), window.blocked, "".join(s.withheld for s in steps)


def allowed(lead: str, text: str) -> str:
    """Replace each match of the text, and each that ends in it, by reading all of it."""
    base, found = len(lead), []
    for automaton in AUTOMATA:
        found += [(m.start, m.end) for m in find_all(automaton, text)]
        found += [(max(0, m.start - base), m.end - base) for m in find_all(automaton, lead + text) if m.end > base]
    parts, at = [], 0
    for start, end in sorted(found):
        if start >= at:
            parts += [text[at:start], "[REDACTED]"]
        at = max(at, end)
    return "".join([*parts, text[at:]])


@settings(max_examples=300, deadline=None)
@given(texts, texts, st.data())
def test_what_leaves_is_what_the_whole_texts_allow_whatever_the_cut(lead: str, text: str, data: Any) -> None:
    """A chain of overlapping spans is one replacement, however its parts were found; a window that would have to
    replace what goes on behind the replacement blocks."""
    places = sorted(data.draw(st.sets(st.integers(0, len(text)), max_size=6)))
    pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
    made = [HoldbackWindow(rails(), REQUEST, Caller(), lead=lead) for _ in range(3)]
    found = [out_of(made[0], pieces), out_of(made[1], list(text))]
    whole = made[2].whole(text)
    assert found[0] == found[1] == ("".join(s.text for s in whole), made[2].blocked, "")
    if found[0][1] is None and lead:
        assert found[0][0] == allowed(lead, text)


@settings(max_examples=200, deadline=None)
@given(texts, texts, st.sampled_from(["block", "escalate"]))
def test_no_match_that_begins_before_it_ends_in_what_leaves(lead: str, text: str, action: str) -> None:
    outs = [
        out_of(HoldbackWindow(rails(action), REQUEST, Caller(), lead=lead), pieces) for pieces in ([text], list(text))
    ]
    assert outs[0] == outs[1]
    for automaton in AUTOMATA:
        assert not [m for m in find_all(automaton, lead + outs[0][0]) if m.start < len(lead) < m.end]


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize(
    ("lead", "text", "left"),
    [
        ("pay 4111 1111 ", "11111111", None),
        ("4111111111111", "111", None),
        ("4111", "12", "12"),
        ("the hal", '"berd"', '"berd"'),
        (
            "the hal",
            '{"a": "halberd", "b": 4111111111111111111111}',
            '{"a": "[REDACTED]", "b": 4111111111111111111111}',
        ),
        ("4111 1111 ", '["1111 1111", "halberd"]', '["1111 1111", "[REDACTED]"]'),
        ("it is ", "true", "true"),
    ],
)
def test_json_is_joined_as_it_is_spelled(lead: str, text: str, left: str | None, cut: bool) -> None:
    """Only what begins before it is found so; what is in its strings and numbers is found as ever."""
    window = JsonWindow(rails(), REQUEST, Caller(), lead=lead)
    out, blocked, _ = out_of(window, list(text) if cut else [text])
    assert (out, blocked) == ((left, None) if left is not None else ("", "redaction_refused"))


@pytest.mark.parametrize("cut", [True, False])
def test_json_behind_an_escalation_waits_for_a_person(cut: bool) -> None:
    window = JsonWindow(rails("escalate"), REQUEST, Caller(), lead="4111 1111 ")
    text = "11111111"
    assert out_of(window, list(text) if cut else [text]) == ("", None, "11111111")


def test_what_must_not_change_blocks() -> None:
    window = UnchangedWindow(rails(), REQUEST, Caller(), lead="the hal")
    assert out_of(window, ["be", "rd"]) == ("", "redaction_refused", "")


def test_a_replacement_that_goes_on_from_the_lead_blocks() -> None:
    for replacement in ("", "b", "hal"):
        automaton = compile_phrases(["halberd"], borders=False)
        window = HoldbackWindow(
            [MatchRail("r", automaton, MatchPolicy(replacement=replacement))], REQUEST, Caller(), lead="the hal"
        )
        assert out_of(window, ["berdberd"]) == ("", "redaction_refused", "")


def test_context_before_the_text_counts() -> None:
    """A rule that looks at the character before is asked with the lead's last one, too."""
    rail = MatchRail("r", compile_patterns({"x": r"\d{3}"}), MatchPolicy())
    window = HoldbackWindow([rail], REQUEST, Caller(), lead="12")
    assert out_of(window, ["3", " 4"]) == ("[REDACTED] 4", None, "")


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, "word " * 40]), max_size=30).map("".join), texts)
def test_a_long_lead_is_read_where_something_may_be(lead: str, text: str) -> None:
    """Skipping to where the prefilter points finds what reading all of it finds."""
    for automaton in AUTOMATA:
        skipping, reading = Scanner(automaton), Scanner(automaton)
        skipping.read_before(lead)
        reading.feed(lead)
        found = [[*s.feed(text), *s.close()] for s in (skipping, reading)]
        ends = [[m for m in matches if m.end > len(lead)] for matches in found]
        assert ends[0] == ends[1]


def test_a_private_key_that_began_far_back_is_found() -> None:
    lead = "-----BEGIN PRIVATE KEY-----\n" + "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo0123456789ABCDEFGHIJKLMNOPQRS\n" * 30
    assert NEAR < len(lead) < LEAD
    window = HoldbackWindow(rails(), REQUEST, Caller(), lead=lead)
    out, _, _ = out_of(window, ["QUJDREVGR0hJ\n-----END ", "PRIVATE KEY-----\nok"])
    assert out == "[REDACTED]\nok"


@dataclass
class Plain:
    """A stranger's rail, without `after`: forbids a word; reads all from its beginning."""

    action: str = "redact"
    name: str = "plain"
    properties: RailProperties = field(default_factory=RailProperties)
    read: list[str] = field(default_factory=list)

    def open(self, request: Request, caller: Caller, channel: Channel) -> PlainSession:
        return PlainSession(self)


class PlainSession:
    def __init__(self, rail: Plain) -> None:
        self.rail, self.text, self.at, self.over = rail, "", 0, 0

    def feed(self, text: str) -> Verdict:
        self.text += text
        self.rail.read.append(text)
        spans = []
        for m in re.finditer("halberd", self.text):
            if m.start() < self.over:
                continue
            self.over = m.end()
            if self.rail.action == "block":
                return Verdict(m.start(), block="word")
            if self.rail.action == "escalate":
                return Verdict(m.end(), escalate="word", escalate_at=m.start())
            spans.append(Span(m.start(), m.end(), "word"))
        held = next((n for n in range(6, 0, -1) if self.text.endswith("halberd"[:n])), 0)
        self.at = max(self.at, self.over, len(self.text) - held)
        return Verdict(self.at, tuple(spans))

    def close(self) -> Verdict:
        return Verdict(len(self.text))


@pytest.mark.parametrize(
    ("action", "left", "blocked", "waits"),
    [("redact", "[REDACTED] is", None, ""), ("block", "", "word", ""), ("escalate", "", None, "berd is")],
)
@pytest.mark.parametrize("before", ["", "halberd, ", "halberd halberd "])
def test_a_rail_that_knows_nothing_of_leads_reads_them_first(
    action: str, left: str, blocked: str | None, waits: str, before: str
) -> None:
    for pieces in (["berd is"], list("berd is")):
        window = HoldbackWindow([Plain(action)], REQUEST, Caller(), lead=before + "the hal")
        assert out_of(window, pieces) == (left, blocked, waits)
    window = HoldbackWindow([Plain(action)], REQUEST, Caller(), lead=before + "the")
    assert out_of(window, ["berd is"]) == ("berd is", None, "")


def test_a_lead_in_which_a_rail_finds_too_much_to_pass_over_blocks() -> None:
    window = HoldbackWindow([Plain("block")], REQUEST, Caller(), lead="halberd " * (RESTARTS + 1))
    assert out_of(window, ["ok"]) == ("", "word", "")


def test_a_rail_that_fails_on_a_lead_fails_as_ever() -> None:
    class Failing(Plain):
        def open(self, request: Request, caller: Caller, channel: Channel) -> PlainSession:
            session = PlainSession(self)
            session.feed = lambda text: 1 / 0  # type: ignore[assignment, method-assign]
            return session

    window = HoldbackWindow([Failing()], REQUEST, Caller(), lead="the hal")
    assert out_of(window, ["berd"]) == ("", "rail_failed", "")


def test_no_more_of_a_lead_is_read_than_a_rail_looks_back() -> None:
    for properties, most in ((RailProperties(), LEAD), (RailProperties(look_back=1, hold_back=9), 10)):
        rail = Plain(properties=properties)
        out_of(HoldbackWindow([rail], REQUEST, Caller(), lead="x" * 9000), ["ok"])
        assert max(map(len, rail.read)) == most


def test_nothing_is_opened_where_nothing_is_continued() -> None:
    assert HoldbackWindow(rails(), REQUEST, Caller())._behind == []
