"""Answers that a pattern determines are read as they are spelled, and with escapes of JSON decoded."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.plugins import OutputRail
from sluicegate.safety import (
    MatchPolicy,
    MatchRail,
    RailPolicy,
    UnchangedWindow,
    UnescapedSession,
    WindowLimits,
    compile_phrases,
    compile_pii,
)
from sluicegate.safety.rules.patterns import compile_patterns
from sluicegate.safety.window.escaped import EscapeDecoder
from tests.safety.driving import CALLER, REQUEST, cut, cuts, cuttings

STRICT = MatchRail("words", compile_phrases(["project nightjar"]), MatchPolicy("block"))
ASKING = MatchRail("words", compile_phrases(["project nightjar"]), MatchPolicy("escalate"))
PII = MatchRail("pii", compile_pii(), MatchPolicy())
BACKSLASH = MatchRail("slash", compile_patterns({"share": r"\\\\hal\\plans"}), MatchPolicy("block"))
SPELLED = '{"a":"all is calm, \\u0070roject\\u0020nightj\\u0061r flies","b":"jo\\u0040harbour.example"}'


def run(pieces: Sequence[str], *rails: OutputRail, limits: WindowLimits = WindowLimits()) -> tuple[str, str | None]:
    window = UnchangedWindow(rails, REQUEST, CALLER, "content", limits)
    out = ""
    for piece in pieces:
        out += window.feed(piece).text
    return out + window.close().text, window.blocked


@pytest.mark.parametrize(
    ("rail", "before"), [(STRICT, '{"a":"all is calm, '), (PII, SPELLED[: SPELLED.index("jo\\u")])]
)
def test_an_escape_hides_nothing_from_a_rail(rail: MatchRail, before: str) -> None:
    for pieces in cuttings(SPELLED, range(0, 60, 7)):
        assert run(pieces, rail) == (before, run([SPELLED], rail)[1])
    assert run([SPELLED], rail)[1] is not None


def test_a_text_that_waits_for_a_person_is_withheld_from_its_first_escape_on() -> None:
    window = UnchangedWindow([ASKING], REQUEST, CALLER)
    step, last = window.feed(SPELLED), window.close()
    assert step.text + last.text == '{"a":"all is calm, '
    assert len(step.escalations + last.escalations) == 1
    assert step.text + step.withheld + last.text + last.withheld == SPELLED


def test_what_is_spelled_with_backslashes_is_read_too() -> None:
    assert run(["see \\\\hal\\plans now"], BACKSLASH)[1] is not None


def test_a_rail_in_shadow_is_counted_once() -> None:
    limits = WindowLimits(rail_policies={"words": RailPolicy(mode="shadow")})
    window = UnchangedWindow([STRICT], REQUEST, CALLER, "content", limits)
    step, last = window.feed("\\n project nightjar "), window.close()
    assert step.text + last.text == "\\n project nightjar "
    assert len(step.shadow + last.shadow) == 1


@given(st.text('\\u\\pq"0d83e\U0001f600'), cuts)
def test_every_cut_is_decoded_alike(text: str, places: list[int]) -> None:
    whole, parted = EscapeDecoder(), EscapeDecoder()
    said = whole.feed(text) + whole.close()
    assert "".join(map(parted.feed, cut(text, places))) + parted.close() == said
    assert parted.length == whole.length == len(said)
    assert whole.spelled(len(said)) == len(text)


@given(st.text())
def test_what_json_writes_is_read_as_json_reads_it(text: str) -> None:
    spelled = json.dumps(text)
    decoder = EscapeDecoder()
    said = decoder.feed(spelled) + decoder.close()
    assert said == f'"{text}"'
    for at in range(len(said)):
        part = spelled[decoder.spelled(at) : decoder.spelled(at + 1)]
        assert (json.loads(f'"{part}"') if 0 < at < len(said) - 1 else part) == said[at]


def test_a_text_without_backslashes_opens_no_second_session() -> None:
    def never() -> UnescapedSession:
        raise AssertionError("opened")

    session = UnescapedSession(never)
    assert (session.feed("plain").clear_to, session.close().clear_to, session.clears("plain")) == (5, 5, True)
