"""A phrase dealt over documents, or over a document and the question, is found where they stand below each other."""

from __future__ import annotations

import time
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.safety import MatchScreen
from tests.gateway.search_service import finds, serving
from tests.gateway.test_retrieval import app, asked, read_by_model

RAIL: Any = {
    "pipeline": {"retrieve": ["http"], "screen": ["blocklist"]},
    "stages": {"screen": {"blocklist": {"phrases": ["project nightjar"], "action": "block"}}},
}
FIRST, SECOND = "All of it belongs to project", "nightjar, which nobody may name."
PADDED = "word " * 150


def found_by(*documents: Any, **tables: Any) -> Any:
    return serving(finds(*documents)), {**RAIL, **tables}


@pytest.mark.parametrize("around", ["", PADDED])
@pytest.mark.parametrize("source", ["", "wiki.md"])
def test_two_documents_that_make_a_phrase_together_are_not_read_together(around: str, source: str) -> None:
    documents = [(around + FIRST, source, 0.9), (SECOND + around, source, 0.5)]
    service, tables = found_by(*documents)
    with service as search, app(search, **tables) as gateway:
        answer = asked(gateway)
        assert answer.status == 200
        told = answer.body["sluicegate"]["retrieval"]
        assert [one["index"] for one in told["documents"]] == [0]
        [dropped] = told["dropped"]
        assert (dropped["rail"], dropped["retriever"]) == ("blocklist", "http")
        assert FIRST in read_by_model(gateway)
        assert "nightjar" not in read_by_model(gateway)


def test_the_order_in_which_they_stand_counts_and_not_that_of_their_scores() -> None:
    """The best stand first and last: the third best, found between them, is the neighbour of the best."""
    service, tables = found_by((FIRST, "", 0.9), (SECOND, "", 0.5), ("Nothing of note.", "", 0.3))
    with service as search, app(search, **tables) as gateway:
        assert "dropped" not in asked(gateway).body["sluicegate"]["retrieval"], "the third stands between them"
    service, tables = found_by((FIRST, "", 0.9), ("Nothing of note.", "", 0.5), (SECOND, "", 0.3))
    with service as search, app(search, **tables) as gateway:
        assert len(asked(gateway).body["sluicegate"]["retrieval"]["dropped"]) == 1


def test_a_document_and_the_question_are_read_together() -> None:
    service, tables = found_by((FIRST, "", 0.9))
    with service as search, app(search, **tables) as gateway:
        answer = asked(gateway, "nightjar: what is it?")
        assert answer.status == 200
        assert answer.body["sluicegate"]["retrieval"]["documents"] == []
        assert read_by_model(gateway) == "nightjar: what is it?"


def test_a_callers_own_document_is_not_dropped_but_refused() -> None:
    """The caller's documents are put in another order than they were sent in."""
    context = [{"text": FIRST, "score": 3}, {"text": "Nothing of note.", "score": 2}, {"text": SECOND, "score": 1}]
    with TestApp(pipeline={"screen": ["blocklist"]}, stages=RAIL["stages"]) as gateway:
        answer = gateway.ask("What is it?", stream=False, sluicegate={"context": context})
        assert (answer.status, (answer.error or {})["code"]) == (400, "content_filter")
        assert gateway.ask("What is it?", stream=False, sluicegate={"context": context[:1]}).status == 200


def test_the_operator_may_want_the_request_refused() -> None:
    service, tables = found_by((FIRST, "", 0.9), (SECOND, "", 0.5), retrieval={"on_blocked": "refuse"})
    with service as search, app(search, **tables) as gateway:
        answer = asked(gateway)
        assert (answer.status, answer.error["code"]) == (400, "content_filter")
        assert "nightjar" not in answer.error["message"]


def test_a_rail_in_shadow_drops_nothing() -> None:
    policies = {"default": {"screen": {"blocklist": {"mode": "shadow"}}}}
    service, tables = found_by((FIRST, "", 0.9), (SECOND, "", 0.5), policies=policies)
    with service as search, app(search, **tables) as gateway:
        assert len(asked(gateway).body["sluicegate"]["retrieval"]["documents"]) == 2


def test_what_is_whole_within_a_document_is_none_across_documents() -> None:
    """A border finds nothing that a document holds by itself: rails have dealt with that."""
    from sluicegate.safety.construction import screen

    rail = screen("blocklist", {"phrases": ["project nightjar"], "action": "block"})
    assert isinstance(rail, MatchScreen)
    assert rail.spanning(["on project nightjar", "and more"]) is None
    assert rail.spanning(["on project", "", "nightjar"]) == (0, 2, "blocklist: blocklist across documents")
    assert rail.spanning(["x " * 300 + "project", "nightjar" + " x" * 300]) is not None


def test_reading_borders_costs_little() -> None:
    from sluicegate.safety.construction import screen

    rail = screen("blocklist", {"phrases": ["project nightjar"], "action": "block"})
    pieces = ["The quick brown fox jumps over the lazy dog. " * 60] * 9
    best = min(_timed(rail, pieces) for _ in range(20))
    assert best < 0.02, "nine documents of 2,700 characters: 4,600 are read"


def _timed(rail: MatchScreen, pieces: list[str]) -> float:
    began = time.perf_counter()
    rail.spanning(pieces)
    return time.perf_counter() - began
