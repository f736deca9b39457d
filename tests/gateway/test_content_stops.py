"""Stop strings and log probabilities beside tools and thoughts: those of the answer's text, however it is cut."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from sluicegate.gateway.answer.content_stops import ContentStops
from sluicegate.gateway.answer.regions import Regions
from sluicegate.gateway.answer.shape import Shape
from sluicegate.plugins import Piece, Sampling, TokenLogprob

TEXT = (
    "<think>\nSTOP here? No.\n</think>\n\nFirst. Observation: none. "
    '<tool_call>\n{"name": "f", "arguments": {"a": "STOP"}}\n</tool_call>'
)
CALL_FIRST = '<tool_call>\n{"name": "f", "arguments": {"a": "STOP"}}\n</tool_call>'


def pieces(text: str, cuts: list[int], *, tokens: bool = False) -> list[Piece]:
    edges = [0, *sorted(set(cuts)), len(text)]
    found = []
    for a, b in pairwise(edges):
        entry = TokenLogprob(a, text[a:b], text[a:b].encode(), -0.5)
        found.append(Piece(0, text[a:b], logprobs=(entry,) if tokens else ()))
    return [*found, Piece(0, finish_reason="stop")]


def read(text: str, cuts: list[int], sampling: Sampling) -> tuple[dict[str, str], list[str], list[TokenLogprob]]:
    """Return (text by channel, how the choice ended, entries) of what leaves."""
    tokens = sampling.logprobs is not None
    regions, stops = Regions(Shape(None, "asked", True), logprobs=tokens), ContentStops(sampling)
    texts: dict[str, str] = {}
    reasons: list[str] = []
    entries: list[TokenLogprob] = []
    for piece in pieces(text, cuts, tokens=tokens):
        for part in regions.feed(piece):
            for left in stops.feed(part):
                texts[left.channel] = texts.get(left.channel, "") + left.text
                reasons += [left.finish_reason] if left.finish_reason else []
                entries += left.logprobs
    return texts, reasons, entries


CUTS = st.lists(st.integers(0, len(TEXT)), max_size=40)


@given(CUTS)
def test_a_stop_string_ends_the_choice_where_it_stands_in_the_answer(cuts: list[int]) -> None:
    texts, reasons, _ = read(TEXT, cuts, Sampling(stop=("Observation:",)))
    assert texts == {"reasoning": "STOP here? No.", "content": "First. "}
    assert reasons == ["stop"]


@given(CUTS)
def test_a_stop_string_in_a_thought_or_in_arguments_ends_nothing(cuts: list[int]) -> None:
    texts, reasons, _ = read(TEXT, cuts, Sampling(stop=("STOP",)))
    assert texts["tool_arguments"] == '{"a": "STOP"}'
    assert texts["content"] == "First. Observation: none."
    assert reasons == ["tool_calls"]


@given(CUTS)
def test_the_stop_string_stays_where_it_was_asked_for(cuts: list[int]) -> None:
    texts, _, _ = read(TEXT, cuts, Sampling(stop=("Observation:",), include_stop_str_in_output=True))
    assert texts["content"] == "First. Observation:"


@given(CUTS)
def test_what_only_began_a_stop_string_leaves_before_the_call(cuts: list[int]) -> None:
    texts, reasons, _ = read(TEXT, cuts, Sampling(stop=("none. <tool_call>",)))
    assert texts["content"] == "First. Observation: none."
    assert reasons == ["tool_calls"]


@given(CUTS)
def test_log_probabilities_are_those_of_tokens_that_begin_in_the_answer(cuts: list[int]) -> None:
    """And of all of them: what is left out begins in a thought, in a mark, or in a call."""
    _, _, entries = read(TEXT, cuts, Sampling(logprobs=0, stop=("never",)))
    start = TEXT.index("First.")
    end = start + len("First. Observation: none.")
    edges = sorted({0, *cuts, len(TEXT)})
    assert [e.token_id for e in entries if e.token] == [edge for edge in edges[:-1] if start <= edge < end]


def test_an_answer_without_an_answer_has_no_log_probabilities() -> None:
    assert read(CALL_FIRST, list(range(len(CALL_FIRST))), Sampling(logprobs=2))[2] == []
