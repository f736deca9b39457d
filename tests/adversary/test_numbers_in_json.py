"""A number in JSON says what its reader makes of it, however it is spelled."""

from __future__ import annotations

import pytest

from sluicegate.gateway.testing import TestApp
from tests.adversary.joining import WAYS, Dialect, Liar, call, ways

SPELLINGS = [
    "4111111111111111",
    "4111111111111111.0",
    "4111111111111111.5",
    "4111111111111111e0",
    "4111111111111111E+0",
    "4.111111111111111e15",
    "0.0004111111111111111e19",
    "41111111111111110e-1",
    "4111111111111110.99999999",
    "-4.111111111111111e+015",
]
HARMLESS = ["3.14", "4111.5", "4.25e3", "-0.0", "4111111111111112.0", "1763829120.125"]


def spoken(liar: Liar, number: str, *, letters: bool) -> None:
    whole = f'{{"a": [{number}, "x"]}}'
    parts = list(whole) if letters else [whole]
    liar.says(call(parts[0]), *[call(part, name=None) for part in parts[1:]], reason="tool_calls")


@ways
@pytest.mark.parametrize("number", [SPELLINGS[1], SPELLINGS[5]])
def test_a_card_number_does_not_leave_as_a_number_in_parts(
    app: TestApp, liar: Liar, way: tuple[Dialect, bool], number: str
) -> None:
    spoken(liar, number, letters=way[1])
    said, raw = way[0](app, way[1], True)
    told = raw.replace(".", "")
    assert number not in raw
    assert "4111111111111111" not in told
    assert not said.get("arguments", "").endswith("}")


@pytest.mark.parametrize("letters", [False, True], ids=["at once", "letter by letter"])
@pytest.mark.parametrize("number", SPELLINGS)
def test_no_spelling_of_a_number_is_a_way_around(app: TestApp, liar: Liar, number: str, letters: bool) -> None:
    spoken(liar, number, letters=letters)
    way, stream = WAYS[1 if letters else 0]
    _, raw = way(app, stream, True)
    assert "content_filter" in raw


@pytest.mark.parametrize("letters", [False, True], ids=["at once", "letter by letter"])
@pytest.mark.parametrize("number", HARMLESS)
def test_other_numbers_leave_as_they_are_spelled(app: TestApp, liar: Liar, number: str, letters: bool) -> None:
    spoken(liar, number, letters=letters)
    way, stream = WAYS[1 if letters else 0]
    said, _ = way(app, stream, True)
    assert said["arguments"] == f'{{"a": [{number}, "x"]}}'
