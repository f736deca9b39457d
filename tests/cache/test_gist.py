"""One question in many wordings, and questions that only look like one."""

from __future__ import annotations

from importlib.resources import files
from itertools import combinations

import pytest

from sluicegate.cache.semantic import signature

# ruff: noqa: E501
WORDINGS = {
    "how": (
        "How do I {v}?|How would I {v}?|How does one {v}?|What's the best way to {v}?|What's the correct way of {g}?|Steps for {g}"
        "|I need to {v}, how?|I want to {v} but I don't know how.|I'm not sure how to {v}.|Does anyone know how to {v}?"
        "|Could someone tell me how to {v}?|What must I do in order to {v}?|Walk me through the steps to {v}.|Can you help me {v}?"
        "|I was wondering how to {v}.|Please explain how I {v}.|What's involved in {g}?|Is there a guide for {g}?"
    )
    .replace("{v}", "rename a branch in git")
    .replace("{g}", "renaming a branch in git"),
    "may": (
        "Can I export my contacts?|Am I allowed to export my contacts?|Would it be possible to export my contacts?"
        "|Is exporting my contacts possible?|Does the app let me export my contacts?|I was wondering whether I can export my contacts."
    ),
    "offer": "Is there parking?|Do you offer parking?|Is parking available?|Have you got parking?|Can you tell me if there is parking?",
    "why": (
        "Why was my card declined?|What is the reason my card was rejected?|How come my card was declined?|My card was refused, why?"
        "|What caused my card to be declined?|Can you explain why my card was declined?|Why did my card get declined?"
    ),
    "when": (
        "When does the course start?|What is the start date of the course?|When will the course begin?|When is the start of the course?"
        "|I need to know when the course begins."
    ),
    "price": (
        "How much does the course cost?|What is the price of the course?|How expensive is the course?|Tell me how much the course costs."
        "|I'd like to know the price of the course."
    ),
    "fault": (
        "How do I fix a leaking washing machine?|My washing machine is leaking, what do I do?|My washing machine leaks. How do I fix it?"
        "|How do I stop my washing machine from leaking?"
    ),
    "fee": "Does it cost extra to bring a bike?|Is there a fee for bringing a bike?|Do you charge for bringing a bike?",
    "object": "How do I hand in my thesis?|How can I submit a thesis?",
    "passive": "Where should essays be submitted?|Where do I submit my essay?",
}


@pytest.mark.parametrize("kind", WORDINGS)
def test_a_question_has_one_gist_in_every_wording(kind: str) -> None:
    one, *others = WORDINGS[kind].split("|")
    for other in others:
        assert signature(other) == signature(one), (one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Who do I pay?", "Who pays?"),
        ("What do cats eat?", "What eats cats?"),
        ("Where can I change money?", "How do I change money?"),
        ("Can you play chess?", "Can I play chess?"),
        ("How long do you keep my data?", "How long should I keep my data?"),
        ("How often do you update the app?", "How often should I update the app?"),
        ("What does the pro plan include?", "What does the benefit plan include?"),
        ("Is there a table for 5?", "Are there 5 tables?"),
        ("How do I join a group?", "How do I merge a group?"),
        ("When do you deliver my package?", "When did you deliver my package?"),
        ("Is it raining in Seattle?", "Does it rain in Seattle?"),
        ("How do I order a glass of wine?", "How do I order a wine glass?"),
        ("How do I keep foxes away from my hens?", "How do I keep hens away from my foxes?"),
        ("Which credit cards do you accept?", "Which credit cards do you offer?"),
        ("How many books can I borrow at once?", "How many books can I borrow immediately?"),
        ("Is gift wrapping available?", "Is gift wrap available?"),
        ("Who directed Alien?", "Who directed Aliens?"),
        ("What is a left join?", "What is a remaining join?"),
        ("How do I get there?", "How do I get it?"),
        ("Do students pay less?", "Are students paid less?"),
        ("Is it safe on the table?", "Is it safe in the table?"),
        ("Where can I get a passport?", "Where is my passport?"),
        ("Do B and then A.", "Do B and A."),
        ("Who's there?", "Who are we?"),
        ("Is this it?", "Is it this?"),
        ("What is in GDPR article 9?", "What is in GDPR item 9?"),
        ("What is the plural of cat?", "What is the plural of cats?"),
    ],
)
def test_what_only_looks_like_one_question_has_two_gists(one: str, other: str) -> None:
    assert signature(one) != signature(other)


def rows() -> list[list[str]]:
    text = files("sluicegate.cache.semantic").joinpath("synonyms.txt").read_text("utf-8")
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def test_no_word_stands_in_two_rows_of_synonyms() -> None:
    words = [word for row in rows() for word in row]
    assert len(words) == len(set(words)), sorted(word for word in set(words) if words.count(word) > 1)


OPPOSITES = (
    "increase decrease|activate deactivate|permitted forbidden|permit forbid|maximum minimum|nearest farthest|difficult easy|cheap expensive"
    "|available unavailable|connect disconnect|username password|monthly yearly|daily weekly|landlord tenant|employer employee|parent child"
    "|adult child|start stop|finish start|begin finish|correct incorrect|enough few|sunrise sunset|check-in check-out|vegan vegetarian"
    "|mandatory optional|fast slow|loud silent|grandmother grandfather|teacher pupil|reduce raise|approve decline|one-way-ticket return-ticket"
    "|refrigerator freezer|debit credit|teaspoon tablespoon|tax tip|lunch dinner|guest owner|frequently seldom"
)


def test_no_row_of_synonyms_holds_opposites_or_siblings() -> None:
    together = {frozenset(pair) for row in rows() for pair in combinations(row, 2)}
    assert not [pair for pair in OPPOSITES.split("|") if frozenset(pair.split()) in together]
