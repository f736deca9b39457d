"""The kit's obvious window and the gateway's own are twins: what an author sees in a test is what a client gets."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.plugins import Caller, Verdict
from sluicegate.plugins.testing import chunkings, drive, make_request
from sluicegate.safety import HoldbackWindow
from tests.plugins import bad_rails
from tests.plugins.bad_rails import WORD, Rail

TEXTS = st.lists(st.sampled_from([WORD, "forbid", "for", "den ", "forbade", "b", " x"]), max_size=8).map("".join)


class Blocking(bad_rails.Bounded):
    """Ends the stream at the word."""

    def feed(self, text: str) -> Verdict:
        verdict = super().feed(text)
        if not verdict.redact:
            return verdict
        return Verdict(verdict.redact[0].start, block="the word")


def gateway_gives(rail: Any, pieces: tuple[str, ...]) -> tuple[str, str | None]:
    window = HoldbackWindow([rail], make_request(), Caller())
    released = []
    for piece in pieces:
        released.append(window.feed(piece).text)
    if window.blocked is None:
        released.append(window.close().text)
    return "".join(released), window.blocked


@pytest.mark.parametrize("session", [bad_rails.Bounded, bad_rails.Good, bad_rails.Whole, Blocking])
@given(text=TEXTS, seed=st.integers(0, 999))
def test_for_a_rail_that_is_right_both_windows_release_the_same(session: Any, text: str, seed: int) -> None:
    """Text and block, in every cut."""
    for cut in chunkings(text, seed=seed):
        found = drive(Rail(session), text, cut)
        assert gateway_gives(Rail(session), cut.pieces) == (found.released, found.reason or None)


@pytest.mark.parametrize(
    "session",
    [
        bad_rails.Late,
        bad_rails.Backwards,
        bad_rails.TooFar,
        bad_rails.Inside,
        bad_rails.Unsettled,
        bad_rails.Crashing,
        bad_rails.Wordy,
    ],
)
@given(text=TEXTS)
def test_a_rail_that_breaks_the_contract_fails_closed_in_both(session: Any, text: str) -> None:
    """By character: what the kit calls a fault, the gateway takes for a failure, at the same place."""
    found = drive(Rail(session), text, tuple(text))
    assert gateway_gives(Rail(session), tuple(text)) == (found.released, found.reason or None)
