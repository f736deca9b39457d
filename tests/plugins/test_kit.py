"""The kit finds each way to get a rail wrong and calls it by its name; a rail that is right has no fault."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.plugins import Caller, RailExample, RailProperties, Verdict
from sluicegate.plugins.testing import Chunking, check_rail, chunkings, drive, make_request, rails
from tests.plugins import bad_rails
from tests.plugins.bad_rails import EXAMPLES, WORD, Rail
from tests.plugins.conftest import ROOT


def kinds(rail: Any) -> set[str]:
    return {fault.kind for fault in check_rail(rail)}


def test_a_rail_that_is_right_has_no_fault() -> None:
    """All its promises are true, so nothing is said."""
    assert check_rail(Rail(bad_rails.Bounded, hold_back=8, look_back=0, budget_s=0.05)) == []


@pytest.mark.parametrize(
    ("session", "kind"),
    [
        ("PieceByPiece", "leaking"),
        ("Late", "too-late"),
        ("Late", "leaking"),
        ("Backwards", "non-monotone"),
        ("TooFar", "out-of-range"),
        ("Inside", "inside-span"),
        ("Unsettled", "unsettled"),
        ("Crashing", "crashing"),
        ("Forgetful", "shared-state"),
        ("ByLength", "chunk-dependent"),
        ("Strict", "too-strict"),
        ("Wordy", "shape"),
        ("Quadratic", "slow"),
    ],
)
def test_a_wrong_rail_is_named_by_what_is_wrong_with_it(session: str, kind: str) -> None:
    """Each of the wrong rails has the fault that it was written to have."""
    assert kind in kinds(Rail(getattr(bad_rails, session)))


@pytest.mark.parametrize(
    ("session", "declared", "kind"),
    [
        ("Slow", {"budget_s": 0.001}, "slow"),
        ("Whole", {"hold_back": 8}, "holds-too-much"),
        ("Good", {"hold_back": 8, "look_back": 0}, "growing"),
        ("Remembering", {"look_back": 3}, "looks-back"),
        ("Bounded", {"channels": frozenset({"reasoning"})}, "other-channel"),
    ],
)
def test_a_promise_that_is_not_kept_is_named(session: str, declared: dict[str, Any], kind: str) -> None:
    """What `properties` declares is tried, not believed."""
    assert kind in kinds(Rail(getattr(bad_rails, session), **declared))


def test_a_rail_that_hangs_is_named_within_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rail that never comes back does not take the check with it."""
    monkeypatch.setattr(rails, "LIMIT_S", 0.2)
    assert kinds(Rail(bad_rails.Hanging)) == {"hanging"}


def test_one_message_of_each_kind_says_what_where_and_how_it_was_fed() -> None:
    """A fault's message quotes the characters that left, their place, and the cut."""
    (leak,) = [fault for fault in check_rail(Rail(bad_rails.PieceByPiece)) if fault.kind == "leaking"]
    assert leak.message.startswith(f"'{WORD}' at 8..17 of 'this is {WORD} here' must never leave, but 'f")
    assert "(fed " in leak.message


def test_a_rail_without_a_name_or_with_other_properties_is_told_so() -> None:
    """The attributes that the gateway reads are looked at too."""
    rail = Rail(bad_rails.Bounded)
    rail.properties = {"version": "1"}  # type: ignore[assignment]
    assert "RailProperties" in next(f.message for f in check_rail(rail, EXAMPLES) if f.kind == "shape")
    del rail.name
    assert "name" in next(f.message for f in check_rail(rail, EXAMPLES) if f.kind == "shape")


def test_an_example_whose_forbidden_part_does_not_occur_is_refused() -> None:
    """A misspelt example would prove nothing and pass."""
    faults = check_rail(Rail(bad_rails.Bounded), [RailExample("nothing here", forbidden=("forbiden",))])
    assert "does not occur" in faults[0].message


def test_drive_shows_what_a_client_would_get_and_how_long_it_waited() -> None:
    """Released text, verdict, places that passed, and the trace of the hold-back."""
    found = drive(Rail(bad_rails.Bounded), f"a {WORD} b", ["a forb", "idd", "en b"])
    assert (found.released, found.verdict) == ("a [REDACTED] b", "redact")
    assert found.passed == [(0, 2), (11, 13)]
    assert [(step.fed, step.clear_to, step.held) for step in found.trace] == [
        (6, 2, 4),
        (9, 2, 7),
        (13, 13, 0),
        (13, 13, 0),
    ]
    assert found.most_held == 7


def test_drive_fails_closed_as_the_gateway_does() -> None:
    """A rail that raises blocks; what had left before stays left."""
    found = drive(Rail(bad_rails.Crashing), "see a b c", ["see a ", "b c"])
    assert (found.released, found.verdict, found.reason) == ("see a ", "block", "rail_failed")
    assert found.faults[0].kind == "crashing"


def test_drive_refuses_pieces_of_another_text() -> None:
    """Pieces that do not make up the text would prove nothing about it."""
    with pytest.raises(ValueError, match="do not make up the text"):
        drive(Rail(bad_rails.Bounded), "abc", ["a", "b"])


@given(st.text(max_size=60), st.integers(0, 59), st.integers(1, 20), st.integers(0, 99))
def test_every_chunking_is_the_text_cut_without_empty_pieces(text: str, start: int, length: int, seed: int) -> None:
    """However a text is cut, its pieces make it up again; cuts are the same for the same seed."""
    found = chunkings(text, [(start, start + length)], seed=seed)
    assert all("".join(cut.pieces) == text and all(cut.pieces) for cut in found)
    assert found == chunkings(text, [(start, start + length)], seed=seed)
    assert len({cut.pieces for cut in found}) == len(found)


def test_chunkings_cut_inside_each_given_span() -> None:
    """A span is cut after its first character, in its middle, before its last, and out of its text."""
    found = chunkings("see forbidden", [(4, 13)], random_cuts=0)
    assert [cut.pieces for cut in found[3:]] == [
        ("see f", "orbidden"),
        ("see forb", "idden"),
        ("see forbidde", "n"),
        ("see ", "forbidden"),
    ]
    assert found[0] == Chunking("whole", ("see forbidden",))


@given(st.lists(st.sampled_from([WORD, "forbid", "for", "den ", "x"]), max_size=6).map("".join))
def test_the_reference_window_replaces_what_a_plain_replace_would(text: str) -> None:
    """For a rail of one word the window is `str.replace`, in every cut."""
    wanted = text.replace(WORD, "[REDACTED]")
    for cut in chunkings(text):
        assert drive(Rail(bad_rails.Bounded), text, cut).released == wanted


def test_a_block_lets_out_what_was_clear_and_nothing_after() -> None:
    """`clear_to` of the blocking verdict is the last thing that counts."""

    class Blocks:
        def feed(self, text: str) -> Verdict:
            return Verdict(3, block="enough")

        def close(self) -> Verdict:
            raise AssertionError("nobody may ask after a block")

    rail = Rail(lambda _: Blocks())
    found = drive(rail, "abcdef", ["abcdef"], request=make_request(), caller=Caller("tenant"))
    assert (found.released, found.verdict, found.reason) == ("abc", "block", "enough")


def test_a_rail_may_promise_nothing() -> None:
    """`properties` is optional, and all of its fields have defaults."""
    rail = Rail(bad_rails.Bounded)
    del rail.properties
    assert check_rail(rail, EXAMPLES) == []
    assert RailProperties().failure_mode == "closed"


def test_the_kit_needs_nothing_heavy() -> None:
    """An author's tests start at once: no torch, no transformers, no web framework, no gateway."""
    heavy = ("torch", "transformers", "fastapi", "numba", "httpx", "sluicegate.gateway", "sluicegate.safety")
    modules = "sluicegate.plugins.testing, sluicegate.plugins.scaffold"
    code = f"import sys, {modules}; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
