"""The hold-back law, tried in full for a small size; `python -m benchmarks.holdback_proof` tries larger ones."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.holdback_proof import InvariantViolated, tried
from sluicegate.gateway.rails.moderation import Moderation
from sluicegate.gateway.rails.text_windows import Windows


def test_what_leaves_is_what_the_whole_texts_allow_whatever_the_schedule_and_the_cut() -> None:
    """All texts of four letters a and b, on two channels in all ways, cut in all ways, against all patterns of up to
    three: no more leaves, at any step, and nothing waits that could leave."""
    assert tried("ab", 4, 3) == 24_192


def test_three_letters_and_two_patterns_at_once() -> None:
    assert tried("abc", 3, 2) + tried("ab", 3, 2, 2) > 10_000


def test_what_is_continued_is_read_first() -> None:
    """Behind all leads of up to two letters: nothing that a client joins to its lead spells a pattern across it."""
    assert tried("ab", 3, 2, lead=2) + tried("ab", 2, 3, 1, 2) > 9_000


def test_a_window_that_does_not_read_the_lead_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    of = Windows.of

    def deaf(self: Windows, *arguments: Any) -> Any:
        self._lead = ""
        return of(self, *arguments)

    monkeypatch.setattr(Windows, "of", deaf)
    with pytest.raises(InvariantViolated):
        tried("ab", 2, 2, lead=1)


def test_a_window_that_forgets_at_a_turn_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial can fail: as windows were, one for each stretch of the stream."""
    turn = Moderation._turn

    def forgetful(self: Moderation, choice: Any, piece: Any, deltas: Any) -> Any:
        for text in choice.unclosed:
            deltas.append(self._close(choice, text, [text.window.close()], None))
        choice.texts.clear()
        return turn(self, choice, piece, deltas)

    monkeypatch.setattr(Moderation, "_turn", forgetful)
    with pytest.raises(InvariantViolated):
        tried("ab", 4, 2)
