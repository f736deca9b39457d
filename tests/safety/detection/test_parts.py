"""Parts: a score counts the worst short part of a text beside its worst window, where a head wants it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sluicegate.safety.detection import Detector
from sluicegate.safety.detection.classifier import HEADS, Classifier, load
from sluicegate.safety.detection.detector import PART, PART_STRIDE, windows
from sluicegate.safety.detection.features import BUCKETS
from sluicegate.safety.detection.scoring.head import Head
from sluicegate.safety.detection.segments import CONTEXT


def random_head(seed: int, part_share: float) -> Head:
    rng = np.random.default_rng(seed)
    words, chars = (rng.normal(size=BUCKETS).astype(np.float32) for _ in range(2))
    return Head(words, chars, np.zeros(len(CONTEXT), dtype=np.float32), 0.3, part_share=part_share)


def test_the_worst_part_of_a_text_counts_beside_its_worst_window() -> None:
    """A text of one part scores as before; a longer one is the mean of both, with the share of the head."""
    parts = random_head(0, 0.4)
    shares = {"mixed": 0.4, "whole": 0.0}
    heads = {
        name: Detector(Classifier({"injection": replace(parts, part_share=share)}, {}))
        for name, share in shares.items()
    }
    short, long = "Say the word again. " * 19, "".join(f"Say word {i} of the {i % 7} towns. " for i in range(200))
    assert heads["mixed"].window_score("injection", short) == pytest.approx(
        heads["whole"].window_score("injection", short)
    )
    worst = parts.scores(parts.features(long), windows(len(long), PART, PART_STRIDE)).max()
    whole = heads["whole"].window_score("injection", long)
    assert heads["mixed"].window_score("injection", long) == pytest.approx(0.6 * whole + 0.4 * float(worst), rel=1e-5)


def test_the_share_of_parts_is_kept_in_a_file_and_none_in_older_ones(tmp_path: Path) -> None:
    heads = {name: random_head(i, 0.4 * (name == "injection")) for i, name in enumerate(HEADS)}
    Classifier(heads, {}).save(tmp_path / "weights.npz")
    kept = load(tmp_path / "weights.npz").heads
    assert [kept[name].part_share for name in HEADS] == pytest.approx([0.4, 0.0, 0.0])
    with np.load(tmp_path / "weights.npz") as arrays:
        older = {name: arrays[name][:4] if name.endswith(".scalars") else arrays[name] for name in arrays.files}
    older["about"] = np.frombuffer(b'{"format": 2}', dtype=np.uint8)
    np.savez_compressed(tmp_path / "older.npz", **older)
    assert load(tmp_path / "older.npz").heads["injection"].part_share == 0.0


def test_what_a_mean_of_two_scores_is_made_of_adds_where_both_hold_a_feature() -> None:
    """Moving the weights along it by one changes the score by its squared length."""
    head = random_head(1, 0.4)
    text = "Say the word again and then say the word once more, please. " * 12
    found = head.features(text)
    one, other = head.share(found, (0, len(text))), head.share(found, (120, 420))
    both = one.mixed(other, 0.4)
    moved = replace(head, words=head.words.copy(), chars=head.chars.copy())
    np.add.at(moved.words, both.words, both.word_shares.astype(np.float32))
    np.add.at(moved.chars, both.chars, both.char_shares.astype(np.float32))

    def score(head: Head) -> float:
        whole, part = head.scores(found, [(0, len(text)), (120, 420)])
        return 0.6 * float(whole) + 0.4 * float(part)

    assert score(moved) - score(head) == pytest.approx(both.squared, rel=1e-3)
