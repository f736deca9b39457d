"""Control tokens in texts are broken up, and found in one pass however many a vocabulary has."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.plugins.control_tokens import defused

LETTERS = "<|>a]["
TOKENS = st.lists(st.text(LETTERS, min_size=1, max_size=4), max_size=8)
GEMMA = ["<bos>", "<start_of_turn>", *(f"<unused{at}>" for at in range(6242)), "[multimodal]"]


def plain(text: str, tokens: Sequence[str]) -> str:
    """Break up tokens as `defused` does, searching for each of them by itself."""
    present = [token for token in tokens if len(token) > 1 and token in text]
    while present:
        pattern = "|".join(re.escape(token) for token in sorted(present, key=len, reverse=True))
        text = re.sub(pattern, lambda found: f"{found[0][0]} {found[0][1:]}", text)
        present = [token for token in present if token in text and " " not in token]
    return text


@given(st.text(LETTERS, max_size=30), TOKENS)
def test_tokens_are_found_as_by_searching_for_each(text: str, tokens: list[str]) -> None:
    """Also where one begins, ends or overlaps another."""
    assert defused(text, tokens) == plain(text, tokens)


@pytest.mark.parametrize(
    "text", ["", "no marks", "<unused77>x<unused7><bos", "[multimodal]<start_of_turn><<bos>", "<u"]
)
def test_a_vocabulary_of_thousands_of_control_tokens(text: str) -> None:
    said = defused(text, GEMMA)
    assert said == plain(text, GEMMA)
    assert not [token for token in GEMMA if token in said]
