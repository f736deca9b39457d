"""Long harmless orders of ours: of one seed the same, nothing left to fill, and they do not ring."""

from __future__ import annotations

import random
import re

import pytest

from sluicegate.safety.detection import Detector, load
from training.detector import briefs

LAYOUTS = {"list": "\n- ", "heading": "## ", "example": "\n-> "}


def texts(seed: int, many: int) -> list[str]:
    rng = random.Random(seed)
    return [briefs.drawn(rng) for _ in range(many)]


def test_briefs_are_the_same_for_a_seed_and_hold_no_choice() -> None:
    assert texts(5, 50) == texts(5, 50) != texts(6, 50)
    drawn = texts(9, 2000)
    assert len(set(drawn)) > 1950
    assert not [text for text in drawn if not text or re.search(r"\{\w*\}|\w\|\w", text)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_briefs_are_long_and_laid_out_as_prompts_are(layout: str) -> None:
    drawn = texts(3, 400)
    assert sum(map(len, drawn)) / len(drawn) > 400
    assert 20 <= sum(LAYOUTS[layout] in text for text in drawn) <= 200


def test_briefs_that_training_did_not_draw_do_not_ring() -> None:
    detector = Detector(load())
    rang = [text for text in texts(77, 200) if detector.injection(text).score >= 0.5]
    assert len(rang) <= 1, rang
