"""What the mixture that trains the bundled model promises, and what keeps the evaluation apart from it."""

from __future__ import annotations

import hashlib
import json
import random
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from transformers import AutoTokenizer

from sluicegate.grammar import Vocabulary, compile_json_schema
from training import everyday, heldout
from training.concepts import SUBJECTS
from training.evaluate import SETS, Score, sample_set
from training.everyday.book import book
from training.examples import Example, rendered, sample_example
from training.honest import sample_open
from training.keys import varied_key
from training.mix import in_the_prompt, sample_mixed
from training.quick_start import quick_starts
from training.tables import table

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(BUNDLED)


@pytest.fixture(scope="module")
def mixed() -> list[Example]:
    return [sample_mixed(random.Random(seed), questions=2, max_facts=7) for seed in range(900)]


def property_names(schema: dict[str, Any]) -> set[str]:
    """Return the property names of the object and of those inside it."""
    found = set(schema.get("properties", {}))
    for part in [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]:
        found |= property_names(part)
    return found


def test_every_answer_with_fields_fits_its_schema(mixed: list[Example]) -> None:
    """Of all kinds of example, those whose fields stand in the messages too."""
    for example in mixed:
        for question in example.questions:
            if question.kinds:
                jsonschema_rs.validator_for(question.schema).validate(json.loads(question.answer))


def test_the_grammar_can_write_every_answer(mixed: list[Example], tokenizer: Any) -> None:
    """What is trained is what a constrained answer can be: compact, in the schema's order."""
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    for example in mixed[:120]:
        for question in example.questions:
            if question.kinds:
                matcher = compile_json_schema(question.schema, vocabulary).matcher()
                for token in tokenizer.encode(question.answer, add_special_tokens=False):
                    matcher.accept(token)


def test_the_mixture_holds_schemas_in_the_prompt_and_requests_without_an_answer(mixed: list[Example]) -> None:
    in_prompt = [example for example in mixed if example.schemaless and example.questions[0].kinds]
    said = [example for example in mixed if example.schemaless and not example.questions[0].kinds]
    texts = ["\n".join(message["content"] for message in example.messages) for example in in_prompt]
    assert len(in_prompt) > 50
    assert len(said) > 10
    for part in ('"properties"', "output fields", "JSON", "```", "keys"):
        assert any(part in text for text in texts), part


def test_a_schema_in_the_prompt_leaves_no_other_sketch(tokenizer: Any) -> None:
    """The rendered prompt has no schema of its own, and every field the answer has is named in the messages."""
    for seed in range(150):
        rng = random.Random(seed)
        example = in_the_prompt(sample_example(rng, questions=2), rng)
        prefix, [(rest, answer)] = rendered(tokenizer, example)
        assert "<|schema|>" not in prefix + rest
        assert all(key in prefix for key in json.loads(answer))


def test_no_field_name_of_a_held_out_subject_is_trained(mixed: list[Example]) -> None:
    listed = {key for concepts in SUBJECTS.values() for concept in concepts for key in concept.keys}
    everyday = {key for frame in book("train").frames.values() for slot in frame.slots.values() for key in slot.keys}
    drawn = set().union(*(property_names(question.schema) for example in mixed for question in example.questions))
    assert not heldout.KEYS & (listed | everyday | drawn)


def test_no_sentence_of_a_held_out_subject_is_trained() -> None:
    trained = {said for concepts in SUBJECTS.values() for concept in concepts for said in concept.says}
    held = {said for concepts in heldout.SUBJECTS.values() for concept in concepts for said in concept.says}
    assert not trained & held


def test_held_out_open_questions_share_no_wording_and_no_topic_with_training() -> None:
    entries = table("open")
    for name in ("greetings", "open", "topics", "claims", "things"):
        assert not set(entries[name]) & set(entries[f"heldout_{name}"]), name
    for seed in range(200):
        assert sample_open(random.Random(seed), "heldout").questions[0].answer


def test_a_varied_field_name_can_be_that_of_no_other_fact() -> None:
    """Whatever name is made up, no other fact of the document has a listed name with all its words."""
    for seed in range(400):
        rng = random.Random(seed)
        facts = sample_example(rng).document.facts
        for fact in facts:
            key = varied_key(fact, facts, rng)
            others = [name for other in facts if other is not fact for name in other.concept.keys]
            assert key is None or not any(set(key.split("_")) <= set(name.split("_")) for name in others)


def test_no_quick_start_text_is_in_the_training_data(mixed: list[Example]) -> None:
    """None of the thirty stands in a phrase file, word list or drawn example of the training side."""
    folder = Path(__file__).resolve().parents[2] / "training"
    files = [*folder.glob("data/*.toml"), *folder.glob("data/*subjects.txt"), *folder.glob("everyday/phrases/train/*")]
    trained = "\n".join(file.read_text(encoding="utf-8") for file in files).lower()
    trained += "\n".join(message["content"] for example in mixed for message in example.messages).lower()
    for case in quick_starts():
        for sentence in re.split(r"(?<=[.!?:])\s|\n", case.messages[-1]["content"]):
            if sentence.startswith(("[[", "Respond with")):  # the client's own words
                continue
            assert len(sentence.split()) < 4 or sentence.lower().strip(" .!?") not in trained, sentence


def test_the_thirty_accept_their_own_answers_and_no_other() -> None:
    cases = quick_starts()
    assert len(cases) == 30
    for case in cases:
        for wanted in case.accepted:
            assert case.is_right(json.dumps(wanted))
            if case.schema is not None:
                jsonschema_rs.validator_for(case.schema).validate(wanted)
        assert not case.is_right("{}")
        assert not case.is_right('{"cut')


@pytest.mark.parametrize("name", SETS)
def test_every_set_of_the_evaluation_can_be_drawn_and_scored(name: str) -> None:
    """Its own answers are all right, and none is when the model says nothing."""
    examples = sample_set(SETS[name], fields=40, seed=3)
    full, empty = Score(), Score()
    for example in examples:
        full.add(example.questions[0], example.questions[0].answer)
        empty.add(example.questions[0], "")
    assert full.right == full.asked
    assert not empty.right.total()


def test_what_an_answer_depends_on_is_told_beside_the_name_of_a_field() -> None:
    """The labels of every enumeration and every yes-or-no question that a description asks stand in the messages."""
    told = 0
    for seed in range(400):
        rng = random.Random(seed)
        example = in_the_prompt(everyday.sample(rng, "heldout", questions=1), rng)
        text = "\n".join(message["content"] for message in example.messages)
        for part in example.questions[0].schema["properties"].values():
            options = [option for option in part.get("enum", []) if isinstance(option, str)]
            asks = [note for note in [part.get("description", "")] if note.endswith("?")]
            told += bool(options or asks)
            assert all(json.dumps(said, ensure_ascii=False)[1:-1] in text for said in [*options, *asks])
    assert told > 50


def test_the_everyday_set_of_the_evaluation_stays_as_it_was_measured() -> None:
    """Figures of different weights are compared: what changes for training must not change what is asked of them."""
    examples = sample_set(SETS["everyday requests, unseen"], fields=150, seed=7)
    drawn = repr([(example.messages, example.questions) for example in examples])
    assert hashlib.sha256(drawn.encode()).hexdigest()[:12] == "3a6e26bf5cb3"
