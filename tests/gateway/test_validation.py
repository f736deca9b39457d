"""The judge before an answer leaves: it knows what the masks know of other documents, and fetches nothing either."""

from __future__ import annotations

import pytest

from sluicegate.gateway.answer.validation import Validator
from sluicegate.grammar import meta_schemas
from sluicegate.plugins import Answer, Constraint, InvalidGrammar
from sluicegate.plugins.testing import make_request


@pytest.mark.parametrize("uri", [uri for uri in meta_schemas() if uri.endswith("/schema")])
def test_an_answer_may_be_held_to_the_schemas_of_json_schema_itself(uri: str) -> None:
    request, judge = make_request(constraint=Constraint("json_schema", {"items": {"$ref": uri}})), Validator()
    judge.prepare(request)
    assert judge.complaint(request, Answer(0, '[{"properties": {"a": {"type": "string"}}}]', "stop")) is None
    assert judge.complaint(request, Answer(0, '[{"properties": {"a": {"type": 7}}}]', "stop"))


def test_any_other_document_is_refused_before_anything_is_generated() -> None:
    request = make_request(constraint=Constraint("json_schema", {"$ref": "http://a.example/x"}))
    with pytest.raises(InvalidGrammar, match="never fetched"):
        Validator().prepare(request)


def test_a_format_under_not_may_be_read_as_an_assertion() -> None:
    schema = {"type": "string", "not": {"format": "date"}}
    request, judge = make_request(constraint=Constraint("json_schema", schema)), Validator()
    assert judge.complaint(request, Answer(0, '"x"', "stop")) is None
    assert judge.complaint(request, Answer(0, '"2020-01-01"', "stop"))
    assert judge.complaint(request, Answer(0, "1", "stop"))


def test_numbers_are_judged_as_they_are_written() -> None:
    """And not as the binary fractions nearest to them."""
    request = make_request(constraint=Constraint("json_schema", {"type": "number", "multipleOf": 3}))
    judge = Validator()
    assert judge.complaint(request, Answer(0, "200000660123000000000700.000", "stop")) is None
    assert judge.complaint(request, Answer(0, "3.0e1", "stop")) is None
    assert judge.complaint(request, Answer(0, "200000660123000000000701.0", "stop"))
    assert "not JSON" in (judge.complaint(request, Answer(0, "NaN", "stop")) or "")


@pytest.mark.parametrize("constraint", [Constraint("json_object"), Constraint("json_schema", {"type": "object"})])
@pytest.mark.parametrize("written", ["1e400", "-1E+309", "3.5e-1000", "12e99999999999999", "0.001e312"])
def test_a_number_that_readers_turn_into_infinity_or_nothing_is_told(written: str, constraint: Constraint) -> None:
    request = make_request(constraint=constraint)
    found = Validator().complaint(request, Answer(0, f'{{"a":[{{"b":{written}}}]}}', "stop"))
    assert f"no double holds the number {written}" in (found or "")


LONG = ["1e308", "0.001e310", "-0e999", "0.0e-9999", "5e-324", "1" + "0" * 390, "0." + "0" * 400 + "1"]


@pytest.mark.parametrize("written", LONG)
def test_a_number_that_is_only_long_is_valid(written: str) -> None:
    request = make_request(constraint=Constraint("json_object"))
    assert Validator().complaint(request, Answer(0, f'{{"a":{written}}}', "stop")) is None
