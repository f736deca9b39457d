"""The judge before an answer leaves: it knows what the masks know of other documents, and fetches nothing either."""

from __future__ import annotations

import pytest

from gateway.validation import Validator
from grammar import meta_schemas
from plugins import Answer, Constraint, InvalidGrammar
from plugins.testing import make_request


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
