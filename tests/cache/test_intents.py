"""Intents as data: each wording is written as its group says, and no group swallows what another means."""

from __future__ import annotations

import re
from functools import cache

import pytest

from sluicegate.cache.semantic import signature
from sluicegate.cache.semantic.wording.intents import FILES, FOLDER, _read
from sluicegate.cache.semantic.wording.senses import rows
from tests.cache.intent_examples import groups, sentences

Signature = tuple[str, ...] | None


@cache
def signed(text: str) -> Signature:
    return signature(text)


def test_nearly_every_wording_of_a_group_means_what_its_head_says() -> None:
    """Thousands of sentences, each bracket's wordings once; the rest are rules that a later group takes first."""
    tried = [(signed(head), signed(made)) for head, lines in groups() for line in lines for made in sentences(line)]
    assert len(tried) > 3500
    assert sum(one == other for one, other in tried) >= 0.95 * len(tried)


def test_groups_of_other_heads_stay_apart() -> None:
    """But for those that always were one: what is allowed and what is possible, a theft and what to do about it."""
    heads: dict[Signature, set[str]] = {}
    for head, _ in groups():
        heads.setdefault(signed(head), set()).add(head)
    assert sorted(sorted(same) for same in heads.values() if len(same) > 1) == [
        ["can i install blue lamp", "is it ok to install blue lamp"],
        ["how do i check if blue lamp", "how do i tell if blue lamp"],
        ["my blue lamp was stolen", "what do i do if my blue lamp was stolen"],
        ["why blue lamp", "why do i blue lamp"],
    ]


def test_a_wording_with_a_sibling_of_its_word_is_another_request() -> None:
    siblings: dict[str, set[str]] = {}
    for row in rows("opposites"):
        for word in row:
            siblings.setdefault(word, set()).update(set(row) - {word})
    tried = 0
    for _, lines in groups():
        for made in (made for line in lines[::2] for made in sentences(line)[::2]):
            for word in sorted(set(re.findall(r"[a-z]+", made)) - {"day"}):
                for other in sorted(siblings.get(word, ())):
                    changed = re.sub(rf"\b{word}\b", other, made, count=1)
                    tried += 1
                    assert changed == made or signature(changed) != signed(made), (made, changed)
    assert tried > 1000


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("How do I reset my password?", "I forgot my password, how can I set a new one?"),
        ("The scanner in room 12 doesn't work", "There's a problem with the scanner in room 12"),
        ("My parcel didn't arrive", "My parcel is missing"),
        ("When does the first ferry to Dover leave?", "What time is the first ferry to Dover?"),
        ("What's the difference between the silver and the gold plan?", "How do the silver and gold plans differ?"),
        ("Who do I contact about the lease?", "Who can help me with the lease?"),
        ("How do I close my account?", "I'd like to close my account"),
        ("Do you ship to Malta?", "Can I get orders delivered to Malta?"),
        ("Can I work part-time?", "Is part-time work possible?"),
        ("How do I convert a list to a set in Python?", "Turn a list into a set in Python"),
        ("Should I rent or buy a car?", "Is it better to rent a car or to buy one?"),
    ],
)
def test_free_wordings_of_one_intent_are_one(one: str, other: str) -> None:
    assert signature(one) == signature(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Which wine should I serve with salmon?", "Which sauce should I serve with salmon?"),
        ("Is the shop open on Monday?", "Is the office open on Monday?"),
        ("How often should I feed a cat a day?", "How often should I feed a cat a week?"),
        ("I lost my credit card, where do I report it?", "I lost my debit card, where do I report it?"),
        ("Which train do I take from Bern to Basel?", "Which bus do I take from Bern to Basel?"),
        ("When does the first ferry to Dover leave?", "When does the last ferry to Dover leave?"),
        ("When does the ferry to Dover leave?", "When does the ferry from Dover leave?"),
        ("How long does it take to return an item?", "How long do I have to return an item?"),
        ("How do I convert a list to a set in Python?", "How do I convert a set to a list in Python?"),
        ("My suitcase is missing", "My suitcase is damaged"),
        ("Is my phone unlocked?", "Is my phone locked?"),
        ("Can I use sugar instead of honey?", "Can I use honey instead of sugar?"),
        ("How do I treat a burn?", "How do I prevent a burn?"),
        ("What is on my calendar today?", "What is on TV today?"),
        ("How do I apply for maternity leave?", "How do I apply for paternity leave?"),
        ("Put this into Spanish.", "Put this into my calendar."),
    ],
)
def test_what_looks_like_one_intent_is_not(one: str, other: str) -> None:
    assert signature(one) != signature(other)


@pytest.mark.parametrize(
    "text", ["> how do i V X\nhow (do|can i V X", "how do i V X", "> a X\nX", "> a X\n(a|X) X", "> a X\n[b] X"]
)
def test_a_line_that_is_no_template_is_refused(text: str) -> None:
    """Brackets that do not close, no group, and nothing by which a text can be told to fit."""
    with pytest.raises(ValueError, match=r"is no template.*mend that line"):
        list(_read(text))


def test_every_file_of_intents_is_read() -> None:
    assert sorted(FILES) == sorted(file.name.removesuffix(".txt") for file in FOLDER.iterdir())
