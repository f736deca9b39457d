"""A key that is nearly a keyword is told: the schema of its author says less than was meant."""

from __future__ import annotations

import random
from difflib import get_close_matches

import pytest

from sluicegate.grammar.limits import GrammarLimits
from sluicegate.grammar.schema.document import SchemaDocument
from sluicegate.grammar.schema.lint import SchemaLint, nearest_keyword
from sluicegate.plugins.json_schema import KEYWORDS


def notes_of(schema: object) -> list[str]:
    return SchemaLint(SchemaDocument(schema), GrammarLimits()).notes


@pytest.mark.parametrize("meant", ["properties", "required", "minLength", "additionalProperties", "maximum", "pattern"])
def test_a_letter_left_out_of_a_keyword_is_told_with_its_place(meant: str) -> None:
    for at in range(1, len(meant)):
        wrong = meant[:at] + meant[at + 1 :]
        if wrong not in KEYWORDS:
            [note] = notes_of({"properties": {"a": {wrong: {}}}})
            assert f"{wrong!r} at '/properties/a'" in note
            assert f"did you mean {meant!r}" in note


def test_names_of_properties_and_keys_of_other_programs_are_not_told() -> None:
    own = {"example": 1, "nullable": True, "discriminator": {}, "propertyOrdering": [], "x-order": 1, "enumNames": []}
    assert notes_of({"properties": {"propertes": {"type": "string"}, "requird": {}}, **own}) == []


def test_a_schema_of_thousands_of_unknown_keys_is_compared_for_few() -> None:
    assert len(notes_of({f"required{at}": 1 for at in range(5000)})) <= 64


def test_keywords_with_other_letters_are_passed_over_without_another_answer() -> None:
    names = [name for name, one in KEYWORDS.items() if one.role not in ("identifier", "annotation") and len(name) > 4]
    near = 0
    for seed in range(300):
        pick = random.Random(seed)
        key = list(pick.choice(names))
        for _ in range(pick.randint(0, 4)):
            at = pick.randrange(len(key))
            key[at : at + pick.randint(0, 1)] = pick.choices("adeimnoprstxyAD", k=pick.randint(0, 2)) or ["e"]
        text = "".join(key)
        expected = next(iter(get_close_matches(text, names, 1, 0.85)), None)
        near += expected is not None
        assert nearest_keyword(text) == expected, text
    assert 50 < near < 280
