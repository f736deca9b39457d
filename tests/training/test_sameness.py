"""What the judge of sameness is trained with."""

from __future__ import annotations

import copy
from itertools import islice
from pathlib import Path
from random import Random

import numpy as np
import pytest
import torch

from tests.cache.encoders import encoder
from training.sameness.adapter import adapter_of
from training.sameness.data import FAMILIES, Labelled, families, pairs_of_families, split
from training.sameness.train import BATCH, PairEncoder, batches, fit

ONE = "is there a way to get a new password"


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


def test_no_pair_is_trained_whose_questions_are_both_measured() -> None:
    train, held, hands = split()
    measured = {text.lower() for pair in held + hands for text in (pair.one, pair.other)}
    assert not [pair for pair in train if {pair.one.lower(), pair.other.lower()} <= measured]


def test_a_pass_over_the_pairs_takes_each_once_in_batches_of_about_one_length() -> None:
    train = [Labelled("how " * (at % 40), "", True, "", str(at)) for at in range(5 * BATCH)]
    made = list(islice(batches(train, Random(0)), 10))
    assert [len(batch) for batch in made] == [BATCH] * 10
    for one in (made[:5], made[5:]):
        assert {pair.family for batch in one for pair in batch} == {pair.family for pair in train}
    assert all(max(lengths) - min(lengths) <= 40 for lengths in ([len(pair.one) for pair in batch] for batch in made))
    assert made == list(islice(batches(train, Random(0)), 10))


def test_the_same_steps_make_the_same_adapter(tmp_path: Path) -> None:
    """However long they take."""
    folder, _ = encoder(tmp_path / "base", 1)
    train = [Labelled("how do i reset my password", text, text == ONE, "", "") for text in (ONE, "can i wash this")]
    made = []
    for _ in range(2):
        torch.manual_seed(0)
        tuned = PairEncoder(folder)
        base = copy.deepcopy(tuned.encoder)
        fit(tuned, train, 8, 1e-2, Random(0))
        made.append(adapter_of(tuned.tokenizer, base, tuned.encoder, tuned.head, 8, 0.0))
    assert made[0].keys() == made[1].keys()
    assert all(np.array_equal(made[0][name], made[1][name]) for name in made[0])
    assert any(name.endswith(":left") for name in made[0])


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
