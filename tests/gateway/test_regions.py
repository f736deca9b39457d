"""What a model wrote under a shape, taken apart: the same regions however the text was cut."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.answer.regions import Regions
from sluicegate.gateway.answer.shape import Shape, Thoughts
from sluicegate.plugins import GenerationFailed, Piece

CALL = '<tool_call>\n{"name": "%s", "arguments": %s}\n</tool_call>'
OSLO, NASTY = '{"city": "Oslo"}', '{"a": {"b": "}\\n</tool_call>"}, "c": "<tool_call>"}'


def regions(
    text: str, cuts: list[int] | None = None, *, thoughts: Thoughts = "none", calls: bool = True, ends: str = "stop"
) -> tuple[list[tuple[str, int, str | None, str]], str | None]:
    """Return (channel, call, tool, text) of each region in order, and how the choice ended."""
    edges = [0, *sorted(set(cuts or [])), len(text)]
    pieces = [Piece(0, text[a:b]) for a, b in pairwise(edges)]
    pieces.append(Piece(0, finish_reason=ends))  # type: ignore[arg-type]
    splitter = Regions(Shape(None, thoughts, calls))
    found: list[tuple[str, int, str | None, str]] = []
    ended = None
    for piece in pieces:
        for part in splitter.feed(piece):
            ended = part.finish_reason or ended
            same = bool(found) and not part.tool and found[-1][:2] == (part.channel, part.call)
            if same:
                channel, call, tool, before = found.pop()
                found.append((channel, call, tool, before + part.text))
            elif part.text or part.tool:
                found.append((part.channel, part.call, part.tool, part.text))
    return found, ended


def test_text_and_then_calls() -> None:
    text = "I will look. " + CALL % ("weather", OSLO) + "\n" + CALL % ("clock", "{}")
    assert regions(text) == (
        [
            ("content", 0, None, "I will look."),
            ("tool_arguments", 0, "weather", OSLO),
            ("tool_arguments", 1, "clock", "{}"),
        ],
        "tool_calls",
    )


def test_thoughts_and_then_an_answer() -> None:
    found = ([("reasoning", 0, None, "\nHm < 3? <b>".strip()), ("content", 0, None, "Yes.\n")], "stop")
    assert regions("<think>\nHm < 3? <b>\n</think>\n\nYes.\n", thoughts="asked", calls=False) == found
    assert regions("Hm < 3? <b></think>\n\nYes.\n", thoughts="begun", calls=False) == found


def test_text_that_only_looks_like_a_mark_is_text() -> None:
    text = "a <tool_cal and <tool_ca"
    assert regions(text) == ([("content", 0, None, text)], "stop")


def test_marks_inside_strings_of_arguments_are_text() -> None:
    assert regions(CALL % ("f", NASTY))[0] == [("tool_arguments", 0, "f", NASTY)]


@pytest.mark.parametrize("cut", [CALL.index("}"), len(CALL % ("f", OSLO)) - 3, 30])
def test_an_output_cut_short_says_so_and_shows_no_half_mark(cut: int) -> None:
    found, ended = regions((CALL % ("f", OSLO))[:cut], ends="length")
    assert ended == "length"
    assert all("<" not in text for *_, text in found)


@pytest.mark.parametrize("must_call", [False, True])
def test_an_output_cut_anywhere_ends_on_a_channel_that_is_open(must_call: bool) -> None:
    """A call opens with its whole name: before that, nothing of it may be passed on, its end neither."""
    text = CALL % ("get_weather", OSLO) + "\n" + CALL % ("get_time", "{}")
    for cut in range(len(text)):
        splitter, opened = Regions(Shape(None, calls=True, must_call=must_call)), set()
        for part in splitter.feed(Piece(0, text[:cut], finish_reason="length")):
            opened |= {part.call} if part.tool else set()
            assert part.channel == "content" or part.call in opened, text[:cut]
            assert not must_call or part.channel != "content" or not part.text, text[:cut]
        assert part.finish_reason == "length"


@pytest.mark.parametrize("text", ["<tool_call>\n{", CALL[:-14] % ("f", OSLO), "<tool_call>" + "x" * 300])
def test_a_call_that_stops_in_the_middle_is_an_error_not_an_answer(text: str) -> None:
    with pytest.raises(GenerationFailed):
        regions(text)


TEXTS = [
    "<think>a</thin</think>\n\nb " + CALL % ("f", NASTY) + "\n" + CALL % ("g", "{}") + " c",
    "<think></think>\n\n" + CALL % ("f", '{"x": [1, 2], "y": " } "}'),
    "<think>x\n\ny</think>\n\nplain <tool_call < text ",
]


@given(st.sampled_from(TEXTS), st.lists(st.integers(1, 120), max_size=40))
def test_the_cut_of_the_pieces_changes_nothing(text: str, cuts: list[int]) -> None:
    within = [cut for cut in cuts if cut < len(text)]
    assert regions(text, within, thoughts="asked") == regions(text, thoughts="asked")
    assert regions(text, list(range(1, len(text))), thoughts="asked") == regions(text, thoughts="asked")
