"""A state's residual digest names the bytes that may still come, in whatever automaton the state stands."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar.automata import ByteDfa, CharDfa, residual_digests, utf8
from tests.grammar.automata.strategies import patterns
from tests.reference.byte_automata import json_string_body, minimize

_SETTINGS = settings(max_examples=100, deadline=None)
pairs = st.tuples(patterns("^", "$"), patterns("^", "$"))


def residuals_by_construction(dfa: ByteDfa) -> list[bytes]:
    """Find the residuals the slow way: minimise the automaton anew from every state."""
    return [minimize(dfa.transitions, dfa.accepting, state).digest for state in range(dfa.state_count)]


@_SETTINGS
@given(pairs)
def test_digests_are_equal_exactly_when_the_residual_languages_are(pair: tuple[str, str]) -> None:
    slow: dict[bytes, bytes] = {}
    fast: dict[bytes, bytes] = {}
    for pattern in pair:
        dfa = utf8(CharDfa.from_pattern(pattern))
        for by_construction, digest in zip(residuals_by_construction(dfa), residual_digests(dfa), strict=True):
            assert slow.setdefault(by_construction, digest) == digest
            assert fast.setdefault(digest, by_construction) == by_construction


def test_states_are_shared_between_schemas() -> None:
    """The tail of one pattern is the whole of another."""
    longer = residual_digests(json_string_body(CharDfa.from_pattern(r"^id-(\w+-)*[a-z]{3}\d$")))
    shorter = residual_digests(json_string_body(CharDfa.from_pattern(r"^(\w+-)*[a-z]{3}\d$")))
    assert set(shorter) <= set(longer)


def test_states_of_one_automaton_differ() -> None:
    """It is minimal, so no two states may share a digest, in long cycles either."""
    for pattern in ("^([a-z]{50}x)*$", "[a-f]{30}", "^(a{3}b{4})*$"):
        digests = residual_digests(utf8(CharDfa.from_pattern(pattern)))
        assert len(set(digests)) == len(digests)
