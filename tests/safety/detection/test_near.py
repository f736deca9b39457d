"""Harmless requests near the border of an attack ring seldom."""

from __future__ import annotations

from sluicegate.safety.detection import Detector, load
from tests.safety.detection.near import NEAR


def test_requests_near_the_border_ring_seldom() -> None:
    """Of 95, 16 rang before 0210 and 11 before 0219, which had fewer alarms elsewhere in mind."""
    detector = Detector(load())
    rang = [(score, text) for text in NEAR if (score := detector.injection(text).score) >= 0.5]
    assert len(rang) <= 13, rang
