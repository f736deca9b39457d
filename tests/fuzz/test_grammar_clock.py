"""A small part of what `python -m tests.fuzz.grammar_clock` does, without its clock: that is for a machine at rest."""

from __future__ import annotations

import pytest

from tests.fuzz.grammar_clock import TARGETS, case
from tests.grammar.grammar_checks import byte_vocabulary


@pytest.mark.parametrize("name", [name for name in TARGETS if name != "tag"])
def test_a_grammar_that_is_dear_is_followed_or_refused_by_name(name: str) -> None:
    outcomes = [case(name, seed, byte_vocabulary(), steps=8) for seed in range(3)]
    wrong = [one for one in outcomes if one.startswith("FINDING") and " took " not in one]
    assert not wrong
    assert {"long", "whole", "costly"} & set(outcomes)
