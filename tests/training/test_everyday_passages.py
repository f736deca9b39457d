"""Texts with questions of their own, and values that are marked where they stand."""

from __future__ import annotations

import json
import random
from collections import Counter, defaultdict
from typing import Any

import pytest

from training.everyday import sample
from training.everyday.book import Frame, book
from training.everyday.dialling import dialled
from training.everyday.spans import written
from training.everyday.telling import Telling, tell
from training.examples import Example


def frames_of_passages() -> list[Frame]:
    return [frame for frame in book("train").top_frames() if frame.passages]


def frames_with(*kinds: str) -> list[Frame]:
    found = [f for f in book("train").top_frames() if any(slot.make in map(_bare, kinds) for slot in f.slots.values())]
    return found or pytest.fail("no frame has such a slot")


def _bare(kind: str) -> tuple[str, ...]:
    return (kind,)


def test_every_passage_has_both_answers_and_asks_what_its_text_can_answer() -> None:
    """Every question of every passage is told from a drawn text, so that none names a slot that the text lacks."""
    passages = 0
    for frame in frames_of_passages():
        for text, passage in frame.passages.items():
            telling = Telling(random.Random(passages), "train", frame)
            text.tell(telling, [])
            named = [question.slots for question in [*passage.yes, *passage.no, *(q for _, q in passage.spans)]]
            assert passage.yes
            assert passage.no
            assert set().union(*map(set, named)) <= set(telling.values), text
            assert {slot for slot, _ in passage.spans} <= set(telling.values), text
            passages += 1
    assert passages > 250


def test_no_question_of_a_passage_has_both_answers() -> None:
    for frame in frames_of_passages():
        for text, passage in frame.passages.items():
            yes, no = ({str(question.phrase) for question in side} for side in (passage.yes, passage.no))
            assert not yes & no, text


def test_yes_and_no_come_equally_often_about_passages() -> None:
    said = Counter[str]()
    for seed in range(1200):
        example = sample(random.Random(seed), "train", 2, frame=frames_of_passages()[0].name)
        for question in example.questions:
            said.update(str(value).lower() for value in json.loads(question.answer).values())
    yes, no = (sum(said[word] for word in words) for words in (("yes", "true", "y"), ("no", "false", "n")))
    assert 0.45 < yes / (yes + no) < 0.55


def test_one_passage_is_asked_several_questions_in_one_schema() -> None:
    drawn = [sample(random.Random(seed), "train", 2, frame=frames_of_passages()[0].name) for seed in range(200)]
    assert sum(len(example.questions[0].schema["properties"]) > 1 for example in drawn) > 30


def test_marked_items_stand_in_the_text_in_their_order() -> None:
    """Lists are those of the whole text, however far apart their items stand."""
    lengths = Counter[int]()
    for frame in frames_with("list"):
        for seed in range(60):
            about = tell(random.Random(seed), "train", frame)
            for name, value in about.values.items():
                if frame.slots[name].make == ("list",):
                    items = json.loads(value.raw)
                    at = -1
                    for item in items:
                        at = about.text.find(item, at + 1)
                        assert at >= 0, (items, about.text)
                    lengths[len(items)] += 1
    assert min(lengths[many] for many in (2, 3, 4)) > 20


def _rows(example: Example) -> list[Any]:
    values = [value for question in example.questions for value in json.loads(question.answer).values()]
    return [row for value in values if isinstance(value, list) for row in value if isinstance(row, dict)]


def test_marked_rows_have_all_their_parts_and_numbers_are_numbers() -> None:
    rows = [row for seed in range(300) for row in _rows(sample(random.Random(seed), "train", 2, frame="mo_order"))]
    assert len(rows) > 300
    kinds: dict[str, set[type]] = defaultdict(set)
    for row in rows:
        for key, value in row.items():
            kinds[key.lower().replace("_", "")].add(type(value))
    assert kinds["quantity"] <= {int, float}
    assert kinds["item"] == {str}


@pytest.mark.parametrize(
    ("kind", "words", "raw"),
    [("count", "four", "4"), ("count", "a dozen", "12"), ("int", "1,250", "1250"), ("cost", "€1,200.50", "1200.50")],
)
def test_marked_numbers_lose_their_words_and_signs(kind: str, words: str, raw: str) -> None:
    assert written(kind, words).raw == raw
    assert written(kind, words).text == words


def test_a_number_that_holds_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no number"):
        written("cost", "cheap")


def test_numbers_are_dialled_in_many_forms() -> None:
    shapes = {"".join("0" if sign.isdigit() else sign for sign in dialled(random.Random(seed))) for seed in range(900)}
    assert len(shapes) > 50
    assert all(sum(sign == "0" for sign in shape) >= 6 for shape in shapes)
