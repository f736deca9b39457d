"""What labels under other names promise."""

from __future__ import annotations

import random

from training.everyday.renaming import renamed

LABELS = {"good": "nice one", "bad": "bad", "so_so": "neither", "other": "something else"}


def test_labels_keep_their_classes_and_stay_apart_under_any_name() -> None:
    for seed in range(2000):
        labels, _ = renamed(LABELS, random.Random(seed))
        assert set(labels) == set(LABELS)
        assert len(set(labels.values())) == len(LABELS)


def test_a_name_that_says_nothing_is_explained_within_what_the_model_is_shown() -> None:
    notes = 0
    for seed in range(2000):
        labels, note = renamed(LABELS, random.Random(seed))
        notes += bool(note)
        if note:
            assert len(note) <= 80
            assert all(label in note and LABELS[name] in note for name, label in labels.items())
    assert notes > 20
