"""What the judge of sameness is trained with."""

from __future__ import annotations

from pathlib import Path

import pytest

from training.sameness.data import FAMILIES, families, pairs_of_families, split


def test_each_family_has_wordings_and_near_misses_and_none_is_both() -> None:
    made = [family for path in FAMILIES for family in families(path)]
    assert len(made) > 1900
    for wordings, near in made:
        assert len(wordings) > 1, wordings
        assert near, wordings
        assert not {text.casefold() for text in wordings} & {text.casefold() for text in near}, wordings


def test_what_is_measured_with_is_not_trained_with() -> None:
    train, held, hands = split()
    trained = {pair.family for pair in train}
    assert not trained & {pair.family for pair in held}
    assert not {pair.author for pair in train} & {pair.author for pair in hands}
    assert "pairs_eighth_hand" not in {pair.author for pair in (*train, *held, *hands)}
    assert len(train) > 40_000
    assert len(held) > 2_000
    assert len(hands) == 1_800


def test_a_line_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "families_wrong.txt"
    path.write_text("= How do I begin?\n+ Where do I begin?\n", "utf-8")
    with pytest.raises(ValueError, match="begins with neither"):
        list(families(path))


def test_pairs_of_a_family_are_all_of_its_wordings_and_each_with_each_near_miss() -> None:
    first = next(families(FAMILIES[0]))
    made = [pair for pair in pairs_of_families() if pair.family == "one:0"]
    count = len(first[0])
    assert sum(pair.same for pair in made) == count * (count - 1) // 2
    assert sum(not pair.same for pair in made) == count * len(first[1])
