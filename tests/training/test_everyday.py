"""What the short everyday requests promise."""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from tests.training.answers import is_written_date, strings_of
from training.everyday import Family, sample
from training.everyday.book import book
from training.everyday.phrases import Choice, Literal, Phrase, RuleName, Sequence, Span, Statement, compiled
from training.everyday.telling import tell
from training.examples import Example

FAMILIES: list[Family] = ["train", "heldout"]
KEY_LISTS = {"label_key", "answer_key", "check_key"}


def examples(family: Family, many: int) -> list[Example]:
    return [sample(random.Random(seed), family) for seed in range(many)]


def each_frame(family: Family, many: int) -> list[Example]:
    frames = book(family).top_frames()
    return [sample(random.Random(seed), family, frame=frame.name) for frame in frames for seed in range(many)]


def options_of(schema: Any) -> set[str]:
    if isinstance(schema, list):
        return set().union(*map(options_of, schema)) if schema else set()
    if not isinstance(schema, dict):
        return set()
    own = {option for option in schema.get("enum", []) if isinstance(option, str)}
    return own | options_of(list(schema.values()))


@pytest.mark.parametrize("family", FAMILIES)
def test_every_answer_validates_and_follows_the_order_of_its_schema(family: Family) -> None:
    for example in each_frame(family, 60):
        for question in example.questions:
            answer = json.loads(question.answer)
            jsonschema_rs.validator_for(question.schema, validate_formats=True).validate(answer)
            assert list(answer) == [key for key in question.schema["properties"] if key in answer]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_string_of_an_answer_is_a_label_or_stands_in_the_text(family: Family) -> None:
    signs = {"EUR": "€", "USD": "$", "GBP": "£"}
    for example in each_frame(family, 120):
        text = example.document.text
        assert any(text in message["content"] for message in example.messages)
        for question in example.questions:
            for found in strings_of(json.loads(question.answer)):
                told = found in options_of(question.schema) or found in text or signs.get(found, "\0") in text
                assert told or is_written_date(found, text), f"{found!r} is not in {text!r}"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_path_that_is_scored_leads_to_a_value(family: Family) -> None:
    for example in examples(family, 600):
        for question in example.questions:
            assert question.kinds or question.answer.endswith("null}")
            for path, _ in question.kinds:
                value: Any = json.loads(question.answer)
                for part in path.split("."):
                    value = value[part]


def test_the_same_seed_gives_the_same_request_and_another_seed_another() -> None:
    assert examples("train", 50) == examples("train", 50)
    assert len({example.messages for example in map(_frozen, examples("train", 200))}) > 195


def _frozen(example: Example) -> Any:
    return type("Frozen", (), {"messages": json.dumps(example.messages)})


def test_the_families_share_no_phrase_question_instruction_or_form() -> None:
    """Compared by what stands between bars; field names, and words alone, are left to the tests below."""
    train, held = (
        {part.strip(" .!?") for line in _phrases(family) for part in line.split(" | ")} for family in FAMILIES
    )
    assert not {part for part in train & held if " " in part}


def _phrases(family: Family) -> set[str]:
    shelf = book(family)
    lines = {re.sub(r"^[!?=&+-] (\w+(, \w+)*: )?|^~ .*?: ", "", line) for line in shelf.lines if line[0] != "$"}
    return {line for line in lines if not {word.strip() for word in line.split(",")} <= _all_words(family)}


def _all_words(family: Family) -> set[str]:
    return set().union(*book(family).words.values())


def test_no_text_that_trains_repeats_six_words_of_a_held_out_one() -> None:
    """Compared in drawn texts, since phrases of many parts can come out as a sentence of the other side."""
    held, trained = (
        {
            run
            for frame in book(family).top_frames()
            for seed in range(many)
            for run in _runs(tell(random.Random(seed), family, frame).text)
        }
        for family, many in (("heldout", 60), ("train", 350))
    )
    assert not held & trained


def _runs(text: str) -> set[str]:
    words = re.findall(r"[a-z']+", re.sub(r"\S*\d\S*", "", text.lower()))
    return {" ".join(words[at : at + 6]) for at in range(len(words) - 5)}


def test_the_families_share_no_word_that_a_text_is_filled_with() -> None:
    held = set().union(*(words for name, words in book("heldout").words.items() if name not in KEY_LISTS))
    assert not held & _all_words("train")


def test_the_families_share_no_set_of_labels() -> None:
    sets = [
        {tuple(sorted(labels.values())) for rows in book(family).label_sets.values() for labels in rows}
        for family in FAMILIES
    ]
    assert not sets[0] & sets[1]


@pytest.mark.parametrize("family", FAMILIES)
def test_every_class_of_a_label_can_be_offered_and_is_told_by_some_text(family: Family) -> None:
    shelf = book(family)
    for frame in shelf.frames.values():
        for slot in frame.slots.values():
            if slot.make[0] == "label":
                name = slot.make[1]
                known = set(shelf.classes.get(name, {})) | {c for row in shelf.label_sets.get(name, []) for c in row}
                told = {tell(random.Random(seed), family, frame).values.get(slot.name) for seed in range(2500)}
                assert {value.text for value in told if value} == known, f"{frame.name}.{slot.name}"


@pytest.mark.parametrize("family", FAMILIES)
def test_yes_and_no_are_right_about_equally_often(family: Family) -> None:
    answers = Counter(
        question.answer.split(":")[1]
        for example in examples(family, 3000)
        for question in example.questions
        if len(question.schema["properties"]) == 1 and question.kinds[0][1] == "boolean"
    )
    assert 0.35 < answers["true}"] / answers.total() < 0.65


@pytest.mark.parametrize("family", FAMILIES)
def test_no_sign_of_the_phrase_language_is_left_in_a_text(family: Family) -> None:
    for example in each_frame(family, 80):
        texts = [message["content"] for message in example.messages]
        assert not [text for text in texts for sign in ("~", "^", "¤", "[", "{", "@ask", "@text", "  ") if sign in text]


@pytest.mark.parametrize("source", ["a (b", "a [b|c", "a) b", "{name", "<rule"])
def test_a_phrase_whose_brackets_do_not_match_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match="of "):
        compiled(source)


def test_escaped_signs_stand_for_themselves() -> None:
    assert compiled("x") == Literal("x")
    text: list[str] = []
    compiled(r"a \(b\)").tell(None, text)  # type: ignore[arg-type]
    assert "".join(text) == "a (b)"


def test_a_request_for_a_label_asks_for_nothing_else() -> None:
    """Under a few schemas, so that one text is read for several names of its class."""
    for seed in range(300):
        example = sample(random.Random(seed), "train", 4, frame=("opinion", "topic", "ticket")[seed % 3], focus="label")
        assert 1 <= len(example.questions) <= 2
        assert all(len(question.schema["properties"]) == 1 for question in example.questions)
        assert all(options_of(question.schema) for question in example.questions)


def test_most_labels_that_train_go_by_their_usual_names() -> None:
    opinions = [sample(random.Random(seed), "train", 1, "opinion", "label") for seed in range(600)]
    usual = [
        options_of(example.questions[0].schema) <= {"positive", "negative", "neutral", "mixed"} for example in opinions
    ]
    assert 0.4 < sum(usual) / len(usual) < 0.8


def test_a_name_is_said_to_be_mentioned_where_it_is() -> None:
    asked = re.compile(r"Does ([^'\"?]+) (?:come up|appear|occur)\b")
    seen = Counter[bool]()
    for seed in range(12000):
        example = sample(random.Random(seed), "train", 1, focus="check")
        said = [*(message["content"] for message in example.messages), str(example.questions[0].schema)]
        found = [match[1] for text in said if (match := asked.search(text))]
        answer = next(iter(json.loads(example.questions[0].answer).values()))
        if found and isinstance(answer, bool):
            told = found[0].lower() in example.document.text.lower()
            assert told == answer, (found[0], example.document.text)
            seen[answer] += 1
    assert min(seen[True], seen[False]) > 20


def _is_flag(item: dict[str, Any]) -> bool:
    return len(item) == 2 and isinstance(list(item.values())[1], bool)


def test_each_of_several_names_is_said_to_be_mentioned_where_it_is() -> None:
    """The list stands in the message or in the schema, and every name is followed by its own answer."""
    seen = Counter[bool]()
    for seed in range(1500):
        example = sample(random.Random(seed), "train", 1, focus="check")
        question = example.questions[0]
        answer = next(iter(json.loads(question.answer).values()))
        if not (isinstance(answer, list) and isinstance(answer[0], dict) and True in map(_is_flag, answer)):
            continue
        said = " ".join([*(message["content"] for message in example.messages), str(question.schema)])
        for name, mentioned in (item.values() for item in answer):
            assert (name.lower() in example.document.text.lower()) == mentioned, (name, example.document.text)
            assert name in said
            seen[mentioned] += 1
    assert min(seen[True], seen[False]) > 100


@pytest.mark.thorough
def test_no_phrase_that_trains_can_tell_a_held_out_text_without_blanks() -> None:
    """Every wording of every training text is tried, not those alone that were drawn; values of slots are of words
    that the families do not share."""
    shelf = book("heldout")
    told = [text for frame in shelf.top_frames() for text in frame.texts]
    told += [option for rule in shelf.rules.values() for option in rule.options]
    held = {text.strip(" .!?").lower() for text in map(_fixed, told) if len(text.split()) > 3}
    assert len(held) > 150
    trained: dict[str, list[Phrase]] = defaultdict(list)
    for phrase in {leaf for frame in book("train").top_frames() for text in frame.texts for leaf in _leaves(text)}:
        for opening in _openings(phrase):
            trained[opening].append(phrase)
    assert sum(map(len, trained.values())) > 5000
    for text in held:
        near = trained[text[:_OPENING]] + trained[""]
        assert not [phrase for phrase in near if len(text) in _ends(phrase, text, {0})], text


def test_a_wording_is_found_among_all_that_a_phrase_has() -> None:
    phrase = compiled("{x=y}[Well, ](it|this) broke[ (in|after) a~ hour]¤.")
    for said, found in (("this broke", True), ("well, it broke after an hour", True), ("it broke an hour", False)):
        assert (len(said) in _ends(phrase, said, {0})) == found


_OPENING = 3  # letters by which phrases are sorted, so that few of them are tried


def _leaves(phrase: Phrase) -> Iterator[Phrase]:
    """Yield what `phrase` is one of, without the statements before it."""
    if isinstance(phrase, RuleName):
        yield from _leaves(book("train").rules[phrase.name])
    elif isinstance(phrase, Choice):
        for option in phrase.options:
            yield from _leaves(option)
    elif isinstance(phrase, Sequence) and all(isinstance(part, Statement) for part in phrase.parts[:-1]):
        yield from _leaves(phrase.parts[-1])
    else:
        yield phrase


def _openings(phrase: Phrase) -> set[str]:
    """Return the first letters of all wordings; with an empty one where they are not known."""
    if isinstance(phrase, Literal):
        said = re.sub("[¤^]", "", phrase.text).lower()[:_OPENING]
        return {said if len(said) == _OPENING and "~" not in said else ""}
    if isinstance(phrase, Span) and phrase.words:
        return _openings(Literal(phrase.words))
    if isinstance(phrase, RuleName):
        return _openings(book("train").rules[phrase.name])
    if isinstance(phrase, Choice):
        return {opening for option in phrase.options for opening in _openings(option)}
    if isinstance(phrase, Sequence):
        parts = (part for part in phrase.parts if not isinstance(part, Statement))
        return _openings(next(parts, Literal("")))
    return {""}


def _fixed(phrase: Phrase) -> str:
    """Return the one wording of a phrase, or nothing where it has several or a slot."""
    if isinstance(phrase, Literal):
        return re.sub("[¤^~]", "", phrase.text)
    if isinstance(phrase, Sequence):
        parts = [part for part in phrase.parts if not isinstance(part, Statement)]
        return _fixed(parts[0]) if len(parts) == 1 else ""
    return ""


def _ends(phrase: Phrase, text: str, starts: set[int]) -> set[int]:
    """Return where a wording of `phrase` can end in `text`, in small letters, that begins at one of `starts`; the end
    of the text, too, where nothing but its full stop is left over."""
    if isinstance(phrase, Literal):
        said = re.sub("[¤^]", "", phrase.text).lower()
        return {end for start in starts for end in _literal_ends(said, text, start)}
    if isinstance(phrase, Span):
        return _ends(Literal(phrase.words), text, starts) if phrase.words else set()
    if isinstance(phrase, Statement):
        return starts
    if isinstance(phrase, Sequence):
        for part in phrase.parts:
            starts = _ends(part, text, starts) if starts else starts
        return starts
    if isinstance(phrase, Choice):
        return {end for option in phrase.options for end in _ends(option, text, starts)}
    if isinstance(phrase, RuleName):
        return _ends(book("train").rules[phrase.name], text, starts)
    return set()


def _literal_ends(said: str, text: str, start: int) -> set[int]:
    if "~" in said:
        return _literal_ends(said.replace("~", "", 1), text, start) | _literal_ends(
            said.replace("~", "n", 1), text, start
        )
    if text.startswith(said, start):
        return {start + len(said)}
    return (
        {len(text)} if start + len(said.rstrip(" .!?")) == len(text) and text[start:] == said.rstrip(" .!?") else set()
    )
