"""The README's pictures are what the programs draw now, and the ways of reading are simulated right."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from benchmarks import leaks, pictures

ROOT = Path(__file__).resolve().parent.parent
DRAWN = dict(pictures.PICTURES)


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_shows_what_was_measured_last(name: str) -> None:
    results = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))
    kept = (ROOT / "docs" / "images" / f"{name}.svg").read_text("utf-8")
    assert kept == DRAWN[name](results), "run python -m benchmarks.pictures"
    ElementTree.fromstring(kept)


def test_the_picture_of_the_pipeline_names_every_slot() -> None:
    from sluicegate.plugins import SLOTS

    kept = (ROOT / "docs" / "images" / "pipeline.svg").read_text("utf-8")
    assert kept == pictures.pipeline()
    assert [name for name, _ in pictures.STAGES] == list(SLOTS)


def case(text: str, start: int, end: int, piece: int) -> leaks.Case:
    return {"text": text, "spans": [{"start": start, "end": end}], "chunks": [piece] * len(text)}


@pytest.mark.parametrize(
    ("way", "start", "end", "out"),
    [
        ("10 tokens, 5 before", 2, 8, 0),  # whole within the first window, of which nothing leaves
        ("10 tokens, 5 before", 16, 22, 4),  # four characters leave with the first window, which holds no whole span
        ("10 tokens, 5 before", 4, 24, 20),  # begun before the context of the second: never seen whole
        ("200 tokens, 50 before, let out first", 2, 8, 6),
        ("every piece alone", 2, 8, 6),
        ("a verdict at once, nothing held", 2, 8, 6),
    ],
)
def test_what_a_way_of_reading_lets_out(way: str, start: int, end: int, out: int) -> None:
    """Pieces of two characters, so that ten tokens are twenty."""
    assert leaks.simulated(case("x" * 60, start, end, 2), leaks.WAYS[way]) == out
