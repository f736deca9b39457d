"""Where tokens stand in a text: the same whole and in any pieces, whatever bytes they are of."""

from __future__ import annotations

import random

import pytest

from sluicegate.gateway.answer.token_offsets import TokenOffsets
from sluicegate.plugins import TokenLogprob

CASES: dict[str, tuple[list[bytes], str, list[int]]] = {
    "words": ([b"a ", b"big", b" pike"], "a big pike", [0, 2, 5]),
    "parts of characters": ([b"a", b"\xc3", b"\xa9b", b"c"], "aébc", [0, 1, 1, 3]),
    "no characters": ([b"a", b"\xc4", b"b", b"\xff", b"c"], "a\ufffdb\ufffdc", [0, 1, 2, 3, 4]),
    "one of several bytes": ([b"x", b"\xf0\x9f", b"\x98", b"\x80y", b"z"], "x😀yz", [0, 1, 1, 1, 3]),
    "a blank that is stripped": ([b" the", b" pike"], "the pike", [0, 3]),
    "text without entries": ([b"a ", b"pike"], "a [X] pike", [0, 6]),
}


def entries(words: list[bytes]) -> list[TokenLogprob]:
    return [TokenLogprob(-1, word.decode("utf-8", "replace"), word, -1.0) for word in words]


@pytest.mark.parametrize("case", CASES)
def test_each_token_has_the_place_of_its_first_character(case: str) -> None:
    """Lengths of tokens were added up, which counts a character once for each of its parts."""
    words, text, expected = CASES[case]
    assert TokenOffsets().feed(text, entries(words)) == expected


@pytest.mark.parametrize("case", CASES)
def test_entries_may_leave_later_than_their_text(case: str) -> None:
    """In streams the offset of a piece's first token was that of its text."""
    words, text, expected = CASES[case]
    for seed in range(10):
        pick, offsets, found = random.Random(seed), TokenOffsets(), list[int]()
        cut = pick.randrange(len(text) + 1)
        ready = sum(
            place + len(word.decode("utf-8", "ignore")) < cut for place, word in zip(expected, words, strict=True)
        )
        ready = pick.randrange(ready + 1)
        found += offsets.feed(text[:cut], entries(words[:ready]))
        found += offsets.feed(text[cut:], entries(words[ready:]))
        assert found == expected
