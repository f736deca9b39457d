"""Long texts of ours that give a model a part, and texts of figures: of one seed the same, nothing left to fill."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest

from sluicegate.safety.detection import Detector, load
from training.detector import figures, frames
from training.detector.phrases import sections

MAKERS = (frames.attack, frames.harmless, figures.drawn)
CODE = "def answer(question): {"
DETECTOR = Detector(load())


def texts(make: Callable[[random.Random], str], seed: int, many: int = 100) -> list[str]:
    rng = random.Random(seed)
    return [make(rng) for _ in range(many)]


@pytest.mark.parametrize("make", MAKERS)
def test_texts_are_the_same_for_a_seed_and_hold_no_choice(make: Callable[[random.Random], str]) -> None:
    assert texts(make, 5) == texts(make, 5) != texts(make, 6)
    assert len(set(texts(make, 7))) > 90
    assert all(text.strip() for text in texts(make, 8))
    if make is not figures.drawn:
        assert not [text for text in texts(make, 9, 1000) if re.search(r"\{\w*\}|\w\|\w", text)]


def test_attacks_and_their_twins_share_forms_and_differ_in_what_they_are_for() -> None:
    """Each section of attacks has a harmless one, and none of their lines is the same."""
    found = sections("frames")
    pairs = {name: name.removeprefix("free_") for name in found if name.startswith("free_")}
    pairs |= {"never": "manner", "stakes": "points", "forbidden": "wish"}
    assert len(pairs) == 7
    for attack, harmless in pairs.items():
        assert not set(found[attack]) & set(found[harmless])


def test_most_attacks_are_found_and_hardly_any_twin_rings() -> None:
    """Of a seed that training did not use."""
    found = [DETECTOR.injection(text).score >= 0.5 for text in texts(frames.attack, 77)]
    rang = [text for text in texts(frames.harmless, 77) if DETECTOR.injection(text).score >= 0.5]
    assert sum(found) >= 95
    assert len(rang) <= 3, rang


def test_figures_do_not_ring() -> None:
    rang = [text for text in texts(figures.drawn, 77, 200) if DETECTOR.injection(text).score >= 0.5]
    assert len(rang) <= 1, rang
