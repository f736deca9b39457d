"""The bytes of a JSON string's body are those that decode to a text of the language, all of them."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar.automata import Budget, ByteDfa, CharDfa, byte_union, string_table, utf8
from sluicegate.plugins.errors import GrammarLimit
from tests.grammar.automata.strategies import any_text, patterns, texts
from tests.reference.byte_automata import byte_concat, byte_literal, json_string_body, minimize

_SETTINGS = settings(max_examples=150, deadline=None)
_SHORT = {'"': '\\"', "\\": "\\\\", "/": "\\/", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

_WIDE = [
    "^[^a]*$", r"^[\u0000-\u07ff]+$", r"^[\u{fffe}-\u{10400}]*$", r"^\p{Lu}+$", r'^["\\/\n\u0001]*$', "^😀.😀?$",
    r"^[\ud7ff\ue000\u{10ffff}]+$", r"[\u{1F600}-\u{1F64F}]", r"^\u{10000}|\u{103ff}|\u{10400}$", "^.{0,3}$",
]  # fmt: skip
languages = st.one_of(patterns("^", "$"), st.sampled_from(_WIDE)).map(lambda pattern: CharDfa.from_pattern(pattern))


def spell(text: str, choose: random.Random) -> bytes:
    """Write one of the spellings that JSON allows for `text`, character by character."""
    out = []
    for character in text:
        ways = [numeric(character, choose)]
        if character in _SHORT:
            ways.append(_SHORT[character])
        if character >= " " and character not in '"\\':
            ways.append(character)
        out.append(choose.choice(ways))
    return "".join(out).encode()


def numeric(character: str, choose: random.Random) -> str:
    units = character.encode("utf-16-be")
    pairs = (units[i : i + 2].hex() for i in range(0, len(units), 2))
    return "".join("\\u" + "".join(choose.choice((d, d.upper())) for d in pair) for pair in pairs)


def walk(dfa: ByteDfa, choose: random.Random, steps: int = 60) -> bytes:
    """Draw random bytes along live transitions, stopped in an accepting state; every live state can reach one."""
    state, out, best = dfa.start, bytearray(), -1
    for _ in range(steps):
        if dfa.accepting[state]:
            best = len(out)
            if choose.random() < 0.1:
                break
        alive = np.flatnonzero(dfa.transitions[state] >= 0)
        if not len(alive):
            break
        byte = int(choose.choice(list(alive)))
        out.append(byte)
        state = int(dfa.transitions[state, byte])
    if dfa.accepting[state]:
        best = len(out)
    return bytes(out[:best]) if best >= 0 else b""


@_SETTINGS
@given(languages, st.lists(texts | any_text, min_size=3, max_size=6), st.randoms(use_true_random=False))
def test_every_spelling_of_a_text_is_accepted_exactly_when_the_text_is(
    dfa: CharDfa, samples: list[str], choose: random.Random
) -> None:
    body, canonical = json_string_body(dfa), json_string_body(dfa, escapes=False)
    for text in [*samples, *dfa.enumerate(3)]:
        expected = dfa.accepts(text)
        raw, ascii_only = json.dumps(text, ensure_ascii=False)[1:-1].encode(), json.dumps(text)[1:-1].encode()
        assert canonical.accepts(raw) == body.accepts(raw) == body.accepts(ascii_only) == expected
        assert body.accepts(spell(text, choose)) == expected
        assert utf8(dfa).accepts(text.encode()) == expected


@_SETTINGS
@given(languages, st.randoms(use_true_random=False))
def test_any_walk_through_the_bytes_decodes_to_a_text_of_the_language(dfa: CharDfa, choose: random.Random) -> None:
    for body in (json_string_body(dfa), json_string_body(dfa, escapes=False)):
        for _ in range(5):
            spelled = walk(body, choose)
            if body.accepts(spelled):
                assert dfa.accepts(json.loads(b'"' + spelled + b'"'))
    raw = utf8(dfa)
    for _ in range(5):
        encoded = walk(raw, choose)
        if raw.accepts(encoded):
            assert dfa.accepts(encoded.decode())


@_SETTINGS
@given(languages)
def test_the_result_is_minimal_and_canonical_without_a_pass_for_it(dfa: CharDfa) -> None:
    for built in (json_string_body(dfa), json_string_body(dfa, escapes=False), utf8(dfa)):
        again = minimize(built.transitions, built.accepting)
        assert again == built
        assert again.state_count == built.state_count
        assert np.array_equal(again.transitions, built.transitions)


@pytest.mark.parametrize(
    "body", [b'"', b"\\", b"\\x", b"\n", b"\\u12", b"\\ud800", b"\\udc00", b"\\ud83dx", b"\\ud83d\\u0041", b"\xff",
             b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xe0\x80\x80"]
)  # fmt: skip
def test_what_is_no_string_body_is_refused(body: bytes) -> None:
    assert not json_string_body(CharDfa.any_string()).accepts(body)


@_SETTINGS
@given(languages, st.booleans())
def test_the_dense_body_is_the_same_automaton(dfa: CharDfa, escapes: bool) -> None:
    """As many states, and the language of `json_string_body` with the closing quote behind it."""
    slow, body = json_string_body(dfa, escapes=escapes), string_table(dfa, escapes=escapes)
    assert body.table.shape == (slow.state_count + 1, 256)
    if not dfa.is_empty():
        closed = byte_concat(slow, byte_literal(b'"'))
        assert minimize(body.table, np.arange(len(body.table)) == slow.state_count) == closed


@settings(max_examples=40, deadline=None)
@given(languages, languages)
def test_states_of_dense_bodies_are_named_by_what_they_accept(one: CharDfa, other: CharDfa) -> None:
    """Of two bodies together: equal names exactly where the residual languages are equal."""
    named: dict[bytes | None, ByteDfa] = {}
    for body in (string_table(one), string_table(other)):
        final = np.arange(len(body.table)) == len(body.table) - 1
        for state in range(min(len(body.table) - 1, 30)):
            residual = minimize(body.table, final, state)
            assert named.setdefault(body.name(state), residual) == residual
    assert len({dfa.digest for dfa in named.values()}) == len(named)


def test_ways_of_spelling_share_no_names() -> None:
    """`a*` without escapes has the rows of the texts themselves."""
    dfa = CharDfa.from_pattern("^a*$")
    assert string_table(dfa).name(0) != string_table(dfa, escapes=False).name(0)
    assert string_table(dfa).digest != string_table(dfa, escapes=False).digest


def test_escapes_cannot_dodge_a_pattern() -> None:
    """No spelling of a forbidden text gets through: the automaton sees characters, not bytes."""
    clean = json_string_body(CharDfa.from_pattern("bad").complement())
    for spelled in (b"bad", b"b\\u0061d", b"\\u0062\\u0061\\u0064", b"xx\\u0062ad"):
        assert not clean.accepts(spelled)
    assert clean.accepts(b"b\\u0061xd")


def test_a_set_of_characters_costs_a_few_dozen_states() -> None:
    assert json_string_body(CharDfa.any_string()).state_count <= 20
    assert json_string_body(CharDfa.from_pattern("^[^x😀]*$")).state_count <= 60


def test_the_tables_are_frozen_and_have_the_promised_types() -> None:
    dfa = json_string_body(CharDfa.from_pattern("^a*$"))
    assert dfa.transitions.dtype == np.int32
    assert dfa.transitions.shape == (dfa.state_count, 256)
    assert dfa.accepting.dtype == np.bool_
    with pytest.raises(ValueError, match="read-only"):
        dfa.transitions[0, 0] = 1


def test_the_budget_bounds_the_states() -> None:
    with pytest.raises(GrammarLimit, match="string automaton"):
        json_string_body(CharDfa.length_between(0, 500), budget=Budget(max_states=1_000))
    with pytest.raises(GrammarLimit, match="string automaton needs more than 1000 automaton states"):
        string_table(CharDfa.length_between(0, 500), budget=Budget(max_states=1_000))


@_SETTINGS
@given(st.lists(st.binary(max_size=4), min_size=1, max_size=5), st.binary(max_size=4))
def test_unions_of_byte_literals_accept_exactly_those(words: list[bytes], other: bytes) -> None:
    whole = byte_literal(words[0])
    for word in words[1:]:
        whole = byte_union(whole, byte_literal(word))
    assert all(map(whole.accepts, words))
    assert whole.accepts(other) == (other in words)
