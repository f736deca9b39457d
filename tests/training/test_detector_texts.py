"""Texts and thresholds that the detector is trained with: harmless requests, words of templates, calibrated scores."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from sluicegate.safety.detection import Detector, load
from training.detector import generate, requests, wording
from training.detector.evaluate import logistic, prevalence, threshold
from training.detector.phrases import bank

KINDS = sorted(requests.KINDS)
BANKS = (
    "agents",
    "alike",
    "attacks",
    "benign",
    "documents",
    "everyday",
    "harm",
    "play",
    "risks",
    "talk",
    "tasks",
    "turns",
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_request_is_the_same_for_a_seed_and_has_no_slot_left(kind: str) -> None:
    """But what stands in braces as an example of braces, and in code."""
    make = requests.KINDS[kind]
    assert [make(random.Random(seed)) for seed in range(50)] == [make(random.Random(seed)) for seed in range(50)]
    sections = {name for name in BANKS for name in bank(name).sections}
    for seed in range(200):
        text = make(random.Random(seed))
        assert text.strip()
        assert not {slot.lower() for slot in re.findall(r"\{(\w+)\}", text)} & sections, text


@pytest.mark.parametrize("kind", KINDS)
def test_requests_of_ours_are_hardly_ever_called_attacks(kind: str) -> None:
    """Those of a seed that training did not use: at most one in twenty-five, in the user's words."""
    rng = random.Random(77)
    detector = Detector(load())
    texts = [requests.KINDS[kind](rng) for _ in range(100)]
    flagged = [text for text in texts if detector.injection(text).score >= 0.5]
    assert len(flagged) <= 4, flagged


def test_attacks_within_harmless_requests_are_mostly_found() -> None:
    rng = random.Random(78)
    detector = Detector(load())
    texts = [generate.framed_attack(rng) for _ in range(100)]
    assert sum(detector.injection(text).score >= 0.5 for text in texts) >= 70


def test_only_the_words_that_most_texts_of_a_template_share_are_kept() -> None:
    passages = ("The sea was calm that day and nobody spoke.", "Prices rose by four per cent.", "It rained in Bergen.")
    texts = [f"Read the text below with care.\n{passage}\nHow does it end? Say it." for passage in passages]
    assert wording.shared(texts) == ["How does it end? Say it.", "Read the text below with care."]
    assert wording.shared(["One two three four five.", "Six seven eight nine ten."]) == []


def test_a_logistic_of_a_score_gives_back_the_odds_it_was_drawn_from() -> None:
    """Two normal classes of one width have log odds that are linear in the score."""
    rng = np.random.default_rng(0)
    slope, even = logistic(rng.normal(1.0, 1.0, 20_000), rng.normal(-1.0, 1.0, 20_000))
    assert slope == pytest.approx(2.0, rel=0.05)
    assert even == pytest.approx(0.0, abs=0.05)
    assert prevalence(slope, even, even) == pytest.approx(0.5)
    assert prevalence(2.0, 0.0, 1.0) == pytest.approx(1 / (1 + np.e**2))


def test_a_threshold_lets_no_more_than_its_share_lie_above() -> None:
    scores = np.random.default_rng(1).normal(size=997)
    for rate in (0.0, 0.01, 0.05):
        assert np.mean(scores > threshold(scores, rate)) <= rate
