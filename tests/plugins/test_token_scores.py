"""Scores in columns read like a tuple of mappings, and are joined as one."""

from __future__ import annotations

import copy
import pickle
import random
from collections.abc import Mapping, Sequence

import pytest

from sluicegate.plugins import Piece, TokenScores
from sluicegate.plugins.contract.answers import join_pieces
from sluicegate.plugins.contract.token_scores import join_scores

ROWS = tuple({"harm": float(at), "hate": -float(at)} for at in range(7))


def in_columns(rows: Sequence[Mapping[str, float]]) -> TokenScores:
    return TokenScores({label: [row[label] for row in rows] for label in rows[0]})


def test_they_read_as_a_tuple_of_mappings() -> None:
    scores = in_columns(ROWS)
    assert len(scores) == len(ROWS)
    assert tuple(scores) == ROWS
    assert [scores[at] for at in range(-7, 7)] == [ROWS[at] for at in range(-7, 7)]
    for cut in (slice(None), slice(2, 5), slice(5, 2), slice(-3, None), slice(None, None, 2)):
        assert tuple(scores[cut]) == ROWS[cut]
        assert isinstance(scores[cut], TokenScores)
    for past in (7, -8):
        with pytest.raises(IndexError, match="of 7"):
            scores[past]


def test_they_equal_what_holds_the_same_numbers() -> None:
    scores = in_columns(ROWS)
    assert scores == ROWS
    assert scores == in_columns(ROWS)
    assert scores == copy.deepcopy(scores) == pickle.loads(pickle.dumps(scores))
    assert scores != ROWS[:6]
    assert scores != (*ROWS[:6], {"harm": 6.0, "hate": 6.0})
    assert Piece(0, "x", probed=scores) == Piece(0, "x", probed=ROWS)
    assert repr(TokenScores({"harm": [1.0]})) == "TokenScores({'harm': [1.0]})"


def test_none_are_empty() -> None:
    assert not TokenScores({})
    assert not TokenScores({"harm": []})
    assert not in_columns(ROWS)[3:3]


def test_columns_of_other_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="'harm' 2, 'hate' 1"):
        TokenScores({"harm": [1.0, 2.0], "hate": [1.0]})


@pytest.mark.parametrize("seed", range(20))
def test_joined_scores_are_those_of_all_parts_in_order(seed: int) -> None:
    """In columns, as mappings, of other labels, or none."""
    chance, parts, rows = random.Random(seed), [], []
    for _ in range(chance.randint(0, 5)):
        some = [dict(row) for row in ROWS[: chance.randint(0, 7)]]
        if chance.random() < 0.2:
            some = [{"harm": row["harm"]} for row in some]
        rows += some
        parts.append(in_columns(some) if some and chance.random() < 0.8 else tuple(some))
    assert list(join_scores(parts)) == rows


def test_pieces_with_columns_are_joined_in_columns() -> None:
    pieces = [Piece(0, "ab", (1, 2), probed=in_columns(ROWS[:2])), Piece(0, "c", (3,), probed=in_columns(ROWS[2:3]))]
    joined = join_pieces(pieces, pieces[-1])
    assert isinstance(joined.probed, TokenScores)
    assert joined.probed == ROWS[:3]
    assert joined.joined == ((2, 2), (1, 1))
