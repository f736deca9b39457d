"""The window: what leaves, and when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.plugins import Caller, Channel, Request, Span, Verdict
from sluicegate.safety import MatchPolicy, MatchRail, RailPolicy, WindowLimits, compile_patterns, compile_phrases
from sluicegate.safety.window.released import joined
from tests.safety.driving import by_character, cuts, cuttings, run, window


def phrases(*listed: str, action: str = "redact", borders: bool = False) -> MatchRail:
    return MatchRail("phrases", compile_phrases(listed, borders=borders), MatchPolicy(action))


def patterns(action: str = "redact", **listed: str) -> MatchRail:
    return MatchRail("patterns", compile_patterns(listed), MatchPolicy(action))


class Scripted:
    """A rail that answers what it is told."""

    def __init__(self, *verdicts: Verdict | Exception, name: str = "scripted") -> None:
        self.name = name
        self._verdicts = verdicts

    def open(self, request: Request, caller: Caller, channel: Channel) -> Scripted:
        self._left = list(self._verdicts)
        return self

    def feed(self, text: str) -> Verdict:
        verdict = self._left.pop(0)
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def close(self) -> Verdict:
        return self.feed("")


def test_text_without_anything_live_leaves_at_once() -> None:
    assert window(phrases("zebra")).feed("abc").text == "abc"


def test_only_the_suffix_that_may_still_match_is_held() -> None:
    at_work = window(phrases("zebra"))
    assert at_work.feed("a zeb").text == "a "
    assert at_work.held == 3
    assert at_work.feed("x").text == "zebx"
    assert at_work.held == 0


def test_a_redacted_span_is_replaced_and_the_rest_goes_on() -> None:
    assert run(["a zeb", "ra b"], phrases("zebra"))[:2] == ("a [REDACTED] b", None)


def test_a_block_lets_out_what_is_before_the_span_and_nothing_of_it_or_after() -> None:
    assert run(["a zeb", "ra b", "c"], phrases("zebra", action="block"))[:2] == ("a ", "blocklist")


def test_release_is_the_minimum_over_rails() -> None:
    at_work = window(phrases("zebra"), phrases("a zoo"))
    assert at_work.feed("a ze").text == "a "
    at_work = window(phrases("zebra"), phrases("a zero"))
    assert at_work.feed("a ze").text == ""


def test_spans_of_two_rails_that_overlap_are_one() -> None:
    text, blocked, redactions = run(["one two three four"], phrases("one two"), phrases("two three"))
    assert (text, blocked) == ("[REDACTED] four", None)
    assert [(r.start, r.end) for r in redactions] == [(0, 13)]


def test_a_block_within_another_rails_span_releases_nothing_of_either() -> None:
    both = (phrases("one two"), phrases("two three", action="block"))
    assert run(["x one two three"], *both)[:2] == ("x ", "blocklist")


def test_what_another_rail_still_held_when_one_blocked_stays_in() -> None:
    """Also when the text came as a whole, and the other rail has by then read on and changed its mind."""
    rails = (phrases("stop", action="block"), patterns(long="s top|now a stop that goes on"))
    for pieces in ["now a stop there"], by_character("now a stop there"):
        assert run(pieces, *rails)[:2] == ("", "blocklist")


texts = st.text("abz ", max_size=40) | st.lists(
    st.sampled_from(["ab", "zab", "ba z", "b ", "a\u0301", "ﬁ", "\u200b"])
).map("".join)


@given(texts, cuts, st.sampled_from(["redact", "block"]), st.sampled_from(["redact", "block"]))
def test_the_outcome_does_not_depend_on_the_cut(text: str, places: list[int], one: str, other: str) -> None:
    rails = (phrases("ab a", "zab", action=one), patterns(action=other, runs="b+a*z", spaced="a b"))
    outcomes = [run(pieces, *rails) for pieces in cuttings(text, places)]
    assert outcomes[0] == outcomes[1] == outcomes[2]


@given(texts, cuts, st.integers(1, 4))
def test_the_bound_on_holding_is_met_at_the_same_character_however_the_text_is_cut(
    text: str, places: list[int], bound: int
) -> None:
    rails = (phrases("ab abz"), patterns(runs="b[ab ]*z"))
    outcomes = [run(pieces, *rails, limits=WindowLimits(max_hold=bound)) for pieces in cuttings(text, places)]
    assert outcomes[0] == outcomes[1] == outcomes[2]


@given(texts, cuts)
def test_no_character_of_a_match_leaves(text: str, places: list[int]) -> None:
    for pieces in cuttings(text, places):
        assert "zab" not in run(pieces, phrases("zab"))[0].replace("[REDACTED]", "|")


def test_more_held_than_the_bound_is_a_block() -> None:
    at_work = window(patterns(runs="a+b"), limits=WindowLimits(max_hold=5))
    assert at_work.feed("xaaaaa").blocked is None
    assert at_work.feed("a").blocked == "max_hold"


@pytest.mark.parametrize(
    "verdict",
    [
        RuntimeError("broke"),
        Verdict(clear_to=99),
        Verdict(clear_to=-1),
        Verdict(clear_to=3, redact=(Span(2, 5, "x"),)),
        Verdict(clear_to=3, redact=(Span(2, 9, "x"),)),
        Verdict(clear_to=3, redact=(Span(2, 2, "x"),)),
    ],
)
def test_a_rail_that_throws_or_answers_nonsense_fails_closed(verdict: Verdict | Exception) -> None:
    released = window(phrases("zebra"), Scripted(verdict)).feed("x")
    assert (released.text, released.blocked, released.rail) == ("", "rail_failed", "scripted")
    assert released.failures
    assert released.failures[0].startswith("scripted: ")


def test_a_rail_that_goes_backwards_fails_closed() -> None:
    at_work = window(Scripted(Verdict(2), Verdict(1)))
    assert at_work.feed("ab").text == "ab"
    assert at_work.feed("c").blocked == "rail_failed"


def test_a_rail_that_does_not_settle_at_the_end_fails_closed() -> None:
    at_work = window(Scripted(Verdict(0), Verdict(1)))
    at_work.feed("ab")
    assert at_work.close().blocked == "rail_failed"


def test_a_rail_past_its_time_fails_closed() -> None:
    assert (
        window(phrases("zebra"), limits=WindowLimits(rail_policies={"phrases": RailPolicy(budget_s=0.0)}))
        .feed("a")
        .blocked
        == "rail_failed"
    )


def test_a_rail_that_may_fail_open_is_dropped_and_reported() -> None:
    at_work = window(
        Scripted(RuntimeError("broke")),
        limits=WindowLimits(rail_policies={"scripted": RailPolicy(failure_mode="open")}),
    )
    released = at_work.feed("ab")
    assert (released.text, released.blocked) == ("ab", None)
    assert released.failures == ("scripted: RuntimeError: broke",)
    assert at_work.feed("c").text + at_work.close().text == "c"


def test_behind_an_escalation_everything_is_withheld() -> None:
    at_work = window(Scripted(Verdict(3, escalate="look", escalate_at=2), Verdict(4), Verdict(4)))
    released = at_work.feed("abc")
    assert (released.text, released.withheld, released.escalations) == ("ab", "c", ("scripted: look",))
    assert [(step.text, step.withheld) for step in (at_work.feed("d"), at_work.close())] == [("", "d"), ("", "")]


def test_an_escalation_without_a_place_withholds_from_what_was_clear_before() -> None:
    at_work = window(Scripted(Verdict(1), Verdict(3, escalate="look")))
    assert at_work.feed("a").text == "a"
    assert at_work.feed("bc").withheld == "bc"


def test_an_escalation_before_what_has_left_fails_closed() -> None:
    at_work = window(Scripted(Verdict(1), Verdict(2, escalate="look", escalate_at=0)))
    at_work.feed("a")
    assert at_work.feed("b").blocked == "rail_failed"


def held(
    pieces: list[str], *rails: Any, limits: WindowLimits = WindowLimits()
) -> tuple[str, str, str | None, tuple[str, ...]]:
    """Return (released, withheld, blocked, escalations). Rails that escalate at the same step are told in any order."""
    at_work = window(*rails, limits=limits)
    whole = joined(*map(at_work.feed, pieces), at_work.close())
    return whole.text, whole.withheld, at_work.blocked, tuple(sorted(whole.escalations))


def test_what_is_withheld_went_through_the_other_rails() -> None:
    rails = (phrases("look here", action="escalate"), patterns(digits="[0-9]{4}"))
    assert held(["see: look here 1234 ok"], *rails) == (
        "see: ",
        "look here [REDACTED] ok",
        None,
        ("phrases: blocklist",),
    )


def test_a_block_behind_an_escalation_is_a_block() -> None:
    rails = (phrases("look here", action="escalate"), patterns("block", digits="[0-9]{4}"))
    assert held(["see: look here 1234"], *rails)[2] == "digits"


@given(texts, cuts, st.sampled_from(["redact", "block", "escalate"]), st.booleans())
def test_what_is_withheld_does_not_depend_on_the_cut(text: str, places: list[int], other: str, turned: bool) -> None:
    """Whether a rail escalates, or its block was made an escalation by the operator."""
    action, rail_policy = ("block", RailPolicy(on_block="escalate")) if turned else ("escalate", RailPolicy())
    rails = (phrases("ab a", "zab", action=action), patterns(action=other, runs="b+a*z", spaced="a b"))
    limits = WindowLimits(rail_policies={"phrases": rail_policy})
    outcomes = [held(pieces, *rails, limits=limits) for pieces in cuttings(text, places)]
    if outcomes[0][2] is None:
        assert outcomes[0] == outcomes[1] == outcomes[2]
    else:  # what was withheld is thrown away
        assert len({(out, blocked) for out, _, blocked, _ in outcomes}) == 1


@given(texts, cuts, st.sampled_from(["redact", "block", "escalate"]))
def test_a_rail_in_shadow_says_what_it_would_do_and_changes_nothing(text: str, places: list[int], action: str) -> None:
    rails, shadowed = (patterns(runs="b+a*z"),), phrases("ab a", "zab", action=action)
    limits = WindowLimits(rail_policies={"phrases": RailPolicy(mode="shadow")})
    for pieces in cuttings(text, places):
        assert run(pieces, *rails, shadowed, limits=limits) == run(pieces, *rails)


def test_what_a_rail_in_shadow_would_do_is_told() -> None:
    limits = WindowLimits(rail_policies={"phrases": RailPolicy(mode="shadow")})
    for action, told in (("redact", "redact"), ("block", "block"), ("escalate", "escalate")):
        at_work = window(phrases("zebra", action=action), limits=limits)
        released = at_work.feed("a zebra!")
        assert (released.text, released.shadow) == ("a zebra!", (f"phrases: {told}: blocklist",))


def test_a_rail_in_shadow_may_break_as_it_likes() -> None:
    at_work = window(
        Scripted(RuntimeError("broke")), limits=WindowLimits(rail_policies={"scripted": RailPolicy(mode="shadow")})
    )
    released = at_work.feed("ab")
    assert (released.text, released.blocked, len(released.failures)) == ("ab", None, 1)


class Unopenable:
    name = "unopenable"

    def open(self, request: Request, caller: Caller, channel: Channel) -> Scripted:
        raise RuntimeError("no session")


def test_a_rail_that_opens_no_session_fails_as_configured() -> None:
    assert window(Unopenable()).feed("a").blocked == "rail_failed"
    opened = window(Unopenable(), limits=WindowLimits(rail_policies={"unopenable": RailPolicy(failure_mode="open")}))
    assert opened.feed("a").text == "a"


def test_nothing_leaves_after_a_block() -> None:
    at_work = window(phrases("zebra", action="block"))
    at_work.feed("zebra!")
    assert at_work.feed("more").text == at_work.close().text == ""


# --- a text that comes whole ------------------------------------------------------------------------------------------

SECRETS = patterns(card=r"[0-9]{4}-[0-9]{4}", token=r"tok_[a-z]{3,}")


class Counted:
    """A rail of which the sessions say how often they were fed, and what they answer when asked for a whole text."""

    name = "counted"

    def __init__(self, clears: bool | Exception | None = None) -> None:
        self.fed = 0
        if clears is not None:
            self.clears = self._clears
        self._told = clears

    def open(self, request: Request, caller: Caller, channel: Channel) -> Counted:
        self._end = 0
        return self

    def _clears(self, text: str) -> bool:
        if isinstance(self._told, Exception):
            raise self._told
        return bool(self._told)

    def feed(self, text: str) -> Verdict:
        self.fed += 1
        self._end += len(text)
        return Verdict(self._end)

    def close(self) -> Verdict:
        return Verdict(self._end)


@given(
    st.lists(st.sampled_from(["1234-5678", "tok_", "tok_abc", "zebra", "zeb", " ", "word ", "-", "x"]), max_size=40),
    st.sampled_from(["redact", "block", "escalate"]),
)
def test_a_whole_text_is_judged_as_the_same_text_in_pieces(parts: list[str], action: str) -> None:
    """What leaves and the verdict are the same, whichever way it is read."""
    text = "".join(parts)
    rails = (phrases("zebra", action=action), SECRETS)
    at_once, by_pieces = window(*rails), window(*rails)
    found = joined(*at_once.whole(text))
    steps = [by_pieces.feed(piece) for piece in by_character(text)]
    assert found == joined(*steps, by_pieces.close())
    assert at_once.blocked == by_pieces.blocked
    assert at_once.blocked is not None or at_once.held == by_pieces.held == 0


def test_a_rail_that_clears_a_whole_text_does_not_read_it() -> None:
    rail = Counted(clears=True)
    assert joined(*window(rail).whole("some text")).text == "some text"
    assert rail.fed == 0


@pytest.mark.parametrize("clears", [None, False, RuntimeError("broken")])
def test_where_a_rail_cannot_tell_at_once_all_read_it(clears: bool | Exception | None) -> None:
    sure, unsure = Counted(clears=True), Counted(clears)
    assert joined(*window(sure, unsure).whole("some text")).text == "some text"
    assert (sure.fed, unsure.fed) == (1, 1)


def test_a_rail_whose_time_is_watched_reads_the_text() -> None:
    rail = Counted(clears=True)
    limits = WindowLimits(rail_policies={"counted": RailPolicy(budget_s=5.0)})
    assert joined(*window(rail, limits=limits).whole("some text")).text == "some text"
    assert rail.fed == 1


def test_a_text_longer_than_may_be_held_is_read() -> None:
    rail = Counted(clears=True)
    assert joined(*window(rail, limits=WindowLimits(max_hold=4)).whole("some text")).text == "some text"
    assert rail.fed > 0
