"""The built-in rails against a twin that follows every thread apart."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.safety import Automaton, compile_phrases, compile_pii, compile_secrets, find_all
from sluicegate.safety.matching.scanner import scan_all
from tests.safety import reference

PII, SECRETS = compile_pii(), compile_secrets()
PHRASES = compile_phrases(["blue heron", "heron protocol", "a b", "hal", "halberd", "ron pro"])
LOOSE = compile_phrases(["aa", "aba", "bab"], borders=False)

numbers = st.lists(
    st.sampled_from(
        ["4111", "1111", "1", "0", "04", "75", "40 81", "555", "0143", "+44", "+1", "GB82", "WEST", "5698", "88"]
    )
    | st.sampled_from([" ", "-", ".", ", ", "(", ")", "/", ":", "call ", "card ", "born ", "ssn ", "x", " fax"]),
    max_size=14,
).map("".join)
addresses = st.lists(
    st.sampled_from(
        ["jane", "a.b", "@", "@", ".", "-", "example", "com", "co", "x" * 70, "x" * 130, "'", " ", "_", "1", ":"]
    ),
    max_size=10,
).map("".join)
keys = st.lists(
    st.sampled_from(
        ["AKIA", "IOSF", "ODNN7EXAMPLE", "https://", "a", ":", "@", "b.example", "ghp_", "a1B2" * 9, "eyJhbGciOi"]
    )
    | st.sampled_from(
        ["-----BEGIN ", "PRIVATE KEY-----", "\n", "MIIEowIBAAKCAQEA0Z3V", "-----END RSA PRIVATE KEY-----", " ", "."]
    ),
    max_size=10,
).map("".join)
words = st.lists(
    st.sampled_from(
        ["blue", "heron", "protocol", "hal", "berd", "h4l", "b3rd", " ", "  ", "\n", "*", "a", "b", "-", "B L U E"]
    ),
    max_size=12,
).map("".join)


def check(automaton: Automaton, text: str) -> None:
    expected = reference.find_all(automaton, text)
    assert [(m.start, m.end) for m in scan_all(automaton, text)] == expected
    assert [(m.start, m.end) for m in find_all(automaton, text)] == expected


@settings(max_examples=60, deadline=None)
@given(numbers | addresses)
def test_personal_data_is_found_as_the_twin_finds_it(text: str) -> None:
    check(PII, text)


@settings(max_examples=80, deadline=None)
@given(keys)
def test_credentials_are_found_as_the_twin_finds_them(text: str) -> None:
    check(SECRETS, text)


@settings(max_examples=80, deadline=None)
@given(words, st.text("ab", max_size=12))
def test_phrases_are_found_as_the_twin_finds_them(text: str, loose: str) -> None:
    check(PHRASES, text)
    check(LOOSE, loose)
