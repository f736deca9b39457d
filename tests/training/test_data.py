"""What the generated training and evaluation data promise."""

from __future__ import annotations

import json
import random
import re

import jsonschema_rs
import pytest

from tests.training.answers import is_written_date, strings_of
from training import heldout, layouts, marks
from training.concepts import BROAD_SUBJECTS, FIRST_SUBJECTS, FURTHER_SUBJECTS, SUBJECTS
from training.documents import Family, sample_document
from training.examples import Example, sample_example
from training.makers import make_value
from training.names import Names, Pool
from training.tables import heldout_words, table, words
from training.values import Value

SETS: list[tuple[Pool, Family]] = [
    ("train", "train"),
    ("made", "train"),
    ("heldout", "heldout"),
    ("made", "heldout"),
    ("heldout", "heldout_subject"),
]


def examples(pool: Pool, family: Family, many: int) -> list[Example]:
    return [sample_example(random.Random(seed), pool, family) for seed in range(many)]


def is_derivable(text: str, schema_line: str, document: str) -> bool:
    """Return whether the string stands in the document, is a date written there, or is an option that stands there in
    another case."""
    if text in document or (text.lower() in document.lower() and text in schema_line):
        return True
    signs = {"EUR": "€", "USD": "$", "GBP": "£"}  # a currency by its sign; see Document.currency
    return is_written_date(text, document) or signs.get(text, "no such sign") in document


@pytest.mark.parametrize(("pool", "family"), SETS)
def test_every_answer_validates_against_its_schema(pool: Pool, family: Family) -> None:
    for example in examples(pool, family, 150):
        for question in example.questions:
            jsonschema_rs.validator_for(question.schema, validate_formats=True).validate(json.loads(question.answer))


@pytest.mark.parametrize(("pool", "family"), SETS)
def test_every_string_of_an_answer_can_be_derived_from_the_document(pool: Pool, family: Family) -> None:
    for example in examples(pool, family, 150):
        for question in example.questions:
            for text in strings_of(json.loads(question.answer)):
                assert is_derivable(text, json.dumps(question.schema, ensure_ascii=False), example.document.text)


@pytest.mark.parametrize(("pool", "family"), SETS)
def test_answers_are_compact_and_follow_the_order_of_the_schema(pool: Pool, family: Family) -> None:
    for example in examples(pool, family, 60):
        for question in example.questions:
            keys = list(json.loads(question.answer))
            assert keys == [key for key in question.schema["properties"] if key in keys]
            assert question.answer.startswith('{"') or question.answer == "{}"


def test_the_same_seed_gives_the_same_example_and_another_seed_another() -> None:
    assert examples("train", "train", 20) == examples("train", "train", 20)
    assert len({example.document.text for example in examples("train", "train", 50)}) == 50


def test_training_shares_no_name_with_the_evaluation_lists() -> None:
    """Apart from words of two letters at most, none of the evaluation's names is in any list of the training data."""
    for name in table("heldout_words"):
        if name in table("words"):
            assert not set(words(name)) & set(heldout_words(name)), name


def test_training_shares_no_sentence_layout_or_instruction_with_the_held_out_family() -> None:
    trained = {said for subject in SUBJECTS.values() for c in subject for said in (*c.says, *c.yes, *c.no)}
    held = [said for group in (heldout.SAYS, heldout.YES, heldout.NO) for says in group.values() for said in says]
    assert not trained & set(held)
    trained_layouts = {layout.__name__ for layout in (*layouts.LAYOUTS, *marks.LAYOUTS)}
    assert not trained_layouts & {layout.__name__ for layout in heldout.LAYOUTS}
    assert not set(words("instructions")) & set(heldout.INSTRUCTIONS)
    assert not set(words("distractors")) & set(heldout.DISTRACTORS)


def test_every_held_out_sentence_belongs_to_a_concept() -> None:
    names = {concept.name for subject in SUBJECTS.values() for concept in subject}
    assert set(heldout.SAYS) | set(heldout.YES) | set(heldout.NO) <= names


def test_no_file_of_subjects_hides_a_subject_of_another() -> None:
    files = (FIRST_SUBJECTS, FURTHER_SUBJECTS, BROAD_SUBJECTS)
    assert len(SUBJECTS) == sum(len(file) for file in files)
    assert not set(SUBJECTS) & set(heldout.SUBJECTS)


def test_every_field_name_of_a_subject_means_one_fact() -> None:
    for name, concepts in (FURTHER_SUBJECTS | BROAD_SUBJECTS).items():
        keys = [key for concept in concepts for key in concept.keys]
        assert len(keys) == len(set(keys)), name


def test_training_tells_of_all_files_and_held_out_layouts_of_the_first_alone() -> None:
    def told(pool: Pool, family: Family) -> set[str]:
        drawn = [sample_document(random.Random(seed), pool, family) for seed in range(400)]
        return {fact.concept.name for document in drawn for fact in document.facts}

    first, further, broad = (
        {concept.name for concepts in file.values() for concept in concepts}
        for file in (FIRST_SUBJECTS, FURTHER_SUBJECTS, BROAD_SUBJECTS)
    )
    trained = told("train", "train")
    assert all(trained & (here - there) for here, there in ((first, further), (further, broad), (broad, first)))
    assert told("heldout", "heldout") <= first


def test_words_listed_with_a_maker_are_told_as_they_are_listed() -> None:
    rng = random.Random(5)
    names = Names(rng, "train")
    assert {make_value("pick:oak:elm", names, rng, "EUR").raw for _ in range(40)} == {'"oak"', '"elm"'}
    year = make_value("year:1990:1999", names, rng, "EUR")
    assert (year.kind, year.text) == ("integer", year.raw)
    assert 1990 <= int(year.raw) <= 1999
    for _ in range(40):
        value = make_value("list:oak:elm:ash", names, rng, "EUR")
        assert value.kind == "strings"
        assert all(tree in value.text for tree in json.loads(value.raw))


def test_all_kinds_of_field_are_asked_for() -> None:
    kinds = {kind for e in examples("train", "train", 300) for q in e.questions for _, kind in q.kinds}
    assert kinds == {"string", "integer", "number", "boolean", "enum", "date", "strings", "objects"}


def test_schemas_nest_objects_use_references_and_allow_null() -> None:
    text = json.dumps([q.schema for e in examples("train", "train", 200) for q in e.questions])
    assert all(word in text for word in ('"$ref"', '"anyOf"', '"null"', '"description"', '"enum"', '"format": "date"'))


@pytest.mark.parametrize("layout", [*sorted(set(marks.LAYOUTS), key=lambda layout: layout.__name__), layouts.chat])
def test_random_marks_tell_every_value_and_are_no_held_out_layout(layout: layouts.Layout) -> None:
    """`//`, `->`, tags, bars and the letters of the questionnaire are what held-out layouts are known by."""
    for seed in range(200):
        rng = random.Random(seed)
        concept = rng.choice(SUBJECTS["invoice"])
        facts = [
            layouts.Fact(concept, Value("string", said, f'"{said}"'), label, None)
            for label, said in (("Colour", "dark red"), ("Depth", "12.5"), ("Keeper", "Ann Weller"))
        ]
        text = layout(facts, rng)
        assert all(fact.shown in text for fact in facts), text
        assert not re.search(r"//|->|</|\n\| |WHEREAS|^Q: ", text), text
        assert text not in [held(facts, rng) for held in heldout.LAYOUTS]
