"""The fact guard against hard negatives of every kind, and against near misses that nobody chose."""

from __future__ import annotations

import re
from random import Random

import pytest

from benchmarks.cache import EVERYDAY, MANNERS, UNSEEN, Pair, pairs
from sluicegate.cache.semantic import facts_digest, signature
from sluicegate.cache.semantic.english import listed

PAIRS = pairs()
ANTONYMS = {
    one: others.split()
    for one, others in {
        "delete": "create add restore keep",
        "open": "close shut lock",
        "activate": "deactivate disable cancel",
        "turn on": "turn off switch-off",
        "buy": "sell rent return",
        "start": "stop end finish",
        "increase": "decrease reduce lower cut",
        "upload": "download delete",
        "subscribe to": "unsubscribe-from cancel",
        "reset": "change delete track",
        "lock": "unlock open",
        "change": "cancel keep delete track return",
        "extend": "end cancel renew",
        "borrow": "lend give",
        "receive": "send give return",
    }.items()
}
THINGS = [
    "my account",
    "my password",
    "my order",
    "the file",
    "a ticket",
    "my subscription",
    "the price",
    "the window",
    "an invoice",
]


def same(pair: Pair) -> bool:
    return signature(pair.one) is not None and signature(pair.one) == signature(pair.other)


def test_there_are_hard_negatives_of_every_kind() -> None:
    kinds = {pair.kind for pair in PAIRS if not pair.same}
    assert len(kinds) >= 20
    assert sum(not pair.same for pair in PAIRS) >= 300


def test_the_guard_lets_at_most_one_false_hit_in_two_hundred_through() -> None:
    negatives = [pair for pair in PAIRS if not pair.same]
    false = [pair for pair in negatives if same(pair)]
    assert len(false) <= 0.005 * len(negatives), false


def test_rewordings_pass_the_guard() -> None:
    missed = [pair for pair in PAIRS if pair.kind == "reworded" and not same(pair)]
    assert not missed


def test_no_word_can_be_dropped_changed_or_moved_unnoticed() -> None:
    """Every sentence of the set, with each of its words dropped, replaced by another sentence's, or swapped with its
    neighbour: thousands of near misses that nobody chose. Only a courtesy, an article or an opening may pass."""
    random = Random(3)
    sentences = sorted({text for pair in PAIRS for text in (pair.one, pair.other)})
    vocabulary = sorted({word for text in sentences for word in text.lower().strip(".?!").split()})
    tried, passed = 0, []
    for text in random.sample(sentences, 200):
        expected = signature(text)
        for edited in edits(text.split(), vocabulary, random):
            tried += 1
            if signature(edited) == expected:
                passed.append((text, edited))
    harmless = [found for found in passed if only_differs_by_harmless_words(*found)]
    assert tried > 2500
    assert len(passed) - len(harmless) <= 0.001 * tried, [found for found in passed if found not in harmless]


def edits(words: list[str], vocabulary: list[str], random: Random) -> list[str]:
    made = []
    for place in range(len(words)):
        made.append([*words[:place], *words[place + 1 :]])
        made.append([*words[:place], random.choice(vocabulary), *words[place + 1 :]])
        if place:
            made.append([*words[: place - 1], words[place], words[place - 1], *words[place + 1 :]])
    return [" ".join(one) for one in made if one and one != words]


def only_differs_by_harmless_words(one: str, other: str) -> bool:
    drop = listed(
        "the a an my our some any please kindly hi thanks what what's is that so explain make why reason km kilometres"
        " i do does are am be there customer how on would can like know which s d"
    )
    bare = [[w for w in re.split(r"[\s,.?!:'\"]+", t.lower()) if w and w not in drop] for t in (one, other)]
    decides = listed("from than or into not no before after without more less and if because by with war")
    moved = sorted(bare[0]) == sorted(bare[1]) and decides.isdisjoint(bare[0])  # broken grammar, the same things
    return bare[0] == bare[1] or moved


@pytest.mark.parametrize(
    "text",
    ["", "   ", "x" * 2001, "def f(x):\n    return x", "```\ncode\n```", "| a | b |\n| - | - |", "int main() {\n}"],
)
def test_code_tables_and_long_texts_are_not_compared_by_meaning(text: str) -> None:
    assert signature(text) is None
    assert facts_digest(text, "scope") is None


@pytest.mark.parametrize("text", ["¿Qué hora es?", "今日は何曜日ですか？", "Wie spät ist es?", "🙂", "?!", "\x00", "“"])
def test_any_language_and_any_sign_can_be_compared(text: str) -> None:
    assert signature(text) == signature(f" {text} ")


@pytest.mark.parametrize(
    ("one", "other", "passes"),
    [
        ("When was the Eiffel Tower built?", "In which year was the Eiffel Tower constructed?", True),
        ("Is Ann's parcel 12 kg?", "The parcel of Ann: 12 kilograms?", True),
        ("Can my dog eat chocolate?", "Can my dog eat cheese?", True),
        ("Book a flight from Paris to Rome.", "Book a flight from Rome to Paris.", False),
        ("Convert 100 euros to US dollars.", "Convert 1000 euros to US dollars.", False),
        ("Set it to 20 C.", "Set it to 20 F.", False),
        ("Is it safe with alcohol?", "Is it unsafe with alcohol?", False),
        ("Show orders before 1 May.", "Show orders after 1 May.", False),
        ('Say "yes".', 'Say "no".', False),
        ("Is the server up?", "Is the server down?", False),
        ("a > b?", "a < b?", False),
    ],
)
def test_the_looser_guard_compares_facts_only(one: str, other: str, passes: bool) -> None:
    assert (signature(one, "facts") == signature(other, "facts")) is passes


def test_pairs_written_after_the_rules_are_told_apart() -> None:
    """Nearly two thirds of the paraphrases are found, and no near miss is served. Rules may be added, and pairs; what
    is found now must stay so."""
    found = [pair for pair in pairs(UNSEEN) if same(pair)]
    assert [pair for pair in found if not pair.same] == []
    assert len(found) >= 26


def test_everyday_questions_in_another_construction_are_found_and_near_ones_told_apart() -> None:
    found = [pair for pair in pairs(EVERYDAY) if same(pair)]
    assert [pair for pair in found if not pair.same] == []
    assert len(found) >= 64


def test_questions_of_seven_manners_are_told_apart_and_half_of_their_paraphrases_found() -> None:
    """None of 1,541 near misses is served, and half of 608 paraphrases are."""
    found = [pair for pair in pairs(MANNERS) if same(pair)]
    assert [pair for pair in found if not pair.same] == []
    assert len(found) >= 310


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How is the flu spread?", "How do I spread the flu?"),
        ("How is diabetes caused?", "How do I cause diabetes?"),
        ("How can I call my mother?", "What should I call my mother?"),
        ("Can I travel to Mars?", "Am I allowed to travel to Mars?"),
        ("Can I get pregnant at 50?", "Am I allowed to get pregnant at 50?"),
        ("When is the first bus?", "How soon can I get a bus?"),
        ("How early can I get coffee?", "How soon can I get coffee?"),
        ("What does a baker make?", "How much does a baker make?"),
        ("Can I get a card?", "Write a card."),
        ("Is help needed at the shelter?", "Do I need help at the shelter?"),
        ("Update the price.", "What is the price of the update?"),
        ("Find the errors in this text.", "Fix the errors in this text."),
        ("Does the rent include the garage?", "Does the garage include the rent?"),
        ("Is the garage part of the house?", "Is the house part of the garage?"),
        ("Is there a mouse in the house?", "Is there a house in the mouse?"),
        ("How many cards does a deck have?", "How many decks does a card have?"),
        ("How do I get from the airport to the centre?", "What is the best way from the centre to the airport?"),
        ("Is it dangerous to drink rainwater?", "Is drinking rainwater safe?"),
        ("I was billed twice.", "I billed you twice."),
    ],
)
def test_what_is_asked_around_other_words_keeps_its_parts_in_their_places(one: str, other: str) -> None:
    assert signature(one) != signature(other)


def test_nearly_half_of_the_free_paraphrases_are_found() -> None:
    paraphrases = [pair for pair in PAIRS if pair.kind == "paraphrase"]
    assert sum(map(same, paraphrases)) >= 0.45 * len(paraphrases)


@pytest.mark.parametrize(
    ("one", "other"),
    [("fill", "file"), ("tap", "tape"), ("scrap", "scrape"), ("hop", "hope"), ("strip", "stripe"), ("plan", "plane")],
)
def test_verbs_of_nearly_one_spelling_stay_two(one: str, other: str) -> None:
    for frame in ("How do I {} it?", "What are the steps to {} a thing?"):
        assert signature(frame.format(one)) != signature(frame.format(other))


@pytest.mark.parametrize("verb", sorted(ANTONYMS))
@pytest.mark.parametrize(
    "frame", ["How do I {} {}?", "Can I {} {}?", "I want to {} {}, how?", "What are the steps to {} {}?"]
)
def test_no_verb_is_its_antonym_whatever_it_is_done_to(verb: str, frame: str) -> None:
    for thing in THINGS:
        for opposite in ANTONYMS[verb]:
            assert signature(frame.format(verb, thing)) != signature(frame.format(opposite, thing)), (
                verb,
                opposite,
                thing,
            )


@pytest.mark.parametrize(("one", "other"), [
    ("How do I close my account?", "How do I delete my account?"),
    ("What is the status of my order?", "Where is my order?"),
    ("How do I cook an egg?", "How do I cook eggs?"),
    ("Can I park at the station on Sunday?", "Can I park on Sunday at the station?"),
    ("Write an autumn haiku.", "Write a haiku about autumn."),
])  # fmt: skip
def test_verbs_by_object_compounds_number_and_free_phrases_are_made_one(one: str, other: str) -> None:
    assert signature(one) == signature(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Do you have to pay?", "Do you offer to pay?"),
        ("How do you work?", "How do I work?"),
        ("On which day was she born?", "When was she born?"),
        ("How do I enable sharing?", "How do I disable sharing?"),
        ("What are the steps for locking it?", "What are the steps for unlocking it?"),
        ("How tall is Ann?", "How old is Ann?"),
        ("How does a crow differ from a raven?", "How does a crow differ from a rook?"),
        ("How many euros are 5 dollars?", "How many dollars are 5 euros?"),
        ("What is the longest river in Asia?", "What is the second longest river in Asia?"),
        ("Who is the founder of X?", "Who is the owner of X?"),
    ],
)
def test_constructions_that_are_made_one_do_not_swallow_what_differs(one: str, other: str) -> None:
    assert signature(one) != signature(other)


def test_i_behind_a_comma_is_no_roman_number() -> None:
    assert "roman1" not in (signature("My flat is in Park Street, I need a locksmith") or ())
    assert "roman1" in (signature("Tell me of Chapter I") or ())
