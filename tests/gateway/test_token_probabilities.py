"""Which log probabilities leave: those that spell released text to the byte, with alternatives that rails let pass."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sluicegate.gateway.rails.token_probabilities import TokenProbabilities
from sluicegate.plugins import TokenLogprob
from sluicegate.safety import Redaction


def entry(token: str | bytes, *top: str, said: str | None = None) -> TokenLogprob:
    data = token.encode() if isinstance(token, str) else token
    text = data.decode("utf-8", "replace") if said is None else said
    return TokenLogprob(-1, text, data, -1.0, tuple((-1, t, t.encode(), -2.0) for t in top))


def clears(text: str) -> bool:
    return "halberd" not in text


def released(
    parts: Sequence[tuple[str, Sequence[TokenLogprob]]], *redactions: Redaction, clear_to: int | None = None
) -> list[TokenLogprob]:
    law = TokenProbabilities(clears)
    fed = 0
    found: list[TokenLogprob] = []
    for text, entries in parts:
        law.feed(text, entries)
        fed += len(text)
        found += law.release(fed if clear_to is None else min(fed, clear_to), redactions)
    return found


def tokens(found: Sequence[TokenLogprob]) -> list[str]:
    return [one.token for one in found]


def test_tokens_that_join_to_the_text_leave_with_it() -> None:
    words = [entry("the "), entry("pike")]
    assert released([("the pike", words)]) == words
    assert released([("the ", words[:1]), ("pike", words[1:])]) == words
    assert released([("the pi", []), ("ke", words)]) == words


def test_tokens_that_do_not_join_to_the_text_are_left_out() -> None:
    """A special token has no text; the others, behind it too, spell what the client has."""
    assert released([("ok", [entry("project nightjar")])]) == []
    assert tokens(released([("a b", [entry("a "), entry("<|x|>"), entry("b")])])) == ["a ", "b"]
    assert tokens(released([("a ", [entry("a ")]), ("", [entry("<|x|>")]), ("b", [entry("b")])])) == ["a ", "b"]
    assert tokens(released([("a bc", [entry("a "), entry("x"), entry("c")])])) == ["a "]
    assert released([("", [entry("secret")]), ("ok", [])]) == []


def test_what_is_held_or_replaced_keeps_its_tokens() -> None:
    words = [entry("a "), entry("bad"), entry(" c")]
    assert tokens(released([("a bad c", words)], clear_to=2)) == ["a "]
    assert tokens(released([("a bad c", words)], Redaction(2, 5, "x", "[X]", "r"))) == ["a ", " c"]
    assert tokens(released([("a bad c", words)], Redaction(4, 6, "x", "[X]", "r"))) == ["a "]


def test_a_token_may_hold_a_part_of_a_character() -> None:
    """It leaves with the character; its string is made of its bytes."""
    first, second = entry(b"\xc3"), entry(b"\xa9t")
    assert released([("", [first]), ("ét", [second])]) == [first, second]
    assert released([("", [first])]) == []


def test_tokens_behind_bytes_that_are_no_character_are_not_lost() -> None:
    """The text has U+FFFD for them; all entries from there on were dropped."""
    words = [entry("a"), entry(b"\xc3"), entry("b"), entry(b"\xe2\x82"), entry(b"\xe2"), entry(b"\x82\xac\xff!")]
    text = b"".join(word.data for word in words).decode("utf-8", "replace")
    assert released([(text, words)]) == words
    assert released([("a", words[:2]), (text[1:3], words[2:5]), (text[3:], words[5:])]) == words
    assert released([(text[:2], words[:2])], clear_to=1) == words[:1]


def test_a_first_token_whose_blank_the_decoder_strips_keeps_its_entry() -> None:
    """As with Llama 2's tokenizer: no answer of such a model had any."""
    words = [entry(" the"), entry(" pike")]
    assert released([("the pike", words)]) == words
    assert released([("t", words[:1]), ("he pike", words[1:])]) == words
    apart = [entry(" "), entry("the"), entry(" pike")]
    assert released([("the pike", apart)]) == apart


def test_a_tokens_string_is_that_of_its_bytes() -> None:
    assert tokens(released([("hi", [entry("hi", said="halberd")])])) == ["hi"]


@pytest.mark.parametrize("alternative", ["halberd", "berd", "x halberd y"])
def test_an_alternative_leaves_where_rails_pass_it_alone_and_behind_the_text(alternative: str) -> None:
    found = released([("the hal", [entry("the "), entry("hal")]), ("f", [entry("f", "f", alternative, "l")])])
    assert [t for _, t, _, _ in found[-1].top] == ["f", "l"]


def test_alternatives_of_one_rank_are_a_text() -> None:
    found = released([("ok", [entry("o", "o", "hal"), entry("k", "k", "berd")])])
    assert [[t for _, t, _, _ in one.top] for one in found] == [["o", "hal"], ["k"]]


def test_an_alternative_longer_than_any_token_is_dropped() -> None:
    [found] = released([("o", [entry("o", "o", "x" * 300)])])
    assert [t for _, t, _, _ in found.top] == ["o"]


def test_where_no_rail_acts_all_leave_as_they_came() -> None:
    law = TokenProbabilities(None)
    law.feed("ok", [entry("ok", "halberd")])
    assert law.release(2, ()) == (entry("ok", "halberd"),)


def test_a_rail_that_cannot_tell_at_once_leaves_the_texts_own_tokens_alone() -> None:
    law = TokenProbabilities(lambda text: False)
    law.feed("a b c", [entry("a ", "a ", "x"), entry("b ", "b ", "y"), entry("c", "c", "z")])
    assert [[t for _, t, _, _ in one.top] for one in law.release(5, ())] == [["a "], ["b "], ["c"]]
