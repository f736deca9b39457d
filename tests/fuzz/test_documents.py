"""Documents of real kinds, changed at random, are judged as a validator does."""

from __future__ import annotations

import json

import pytest

from tests.fuzz.document_schemas import DOCUMENTS
from tests.fuzz.documents import case, compiled
from tests.grammar.grammar_checks import reads


@pytest.mark.parametrize("name", DOCUMENTS)
def test_documents_are_read_and_what_is_made_of_them_is_judged_right(name: str) -> None:
    grammar, judge = compiled(name)
    for document in DOCUMENTS[name][1]:
        assert judge.is_valid(document)
        assert reads(grammar, json.dumps(document, indent=2))
    for seed in range(12):
        outcome = case(name, seed)
        assert outcome == "right", f"{name}:{seed} {outcome}"
