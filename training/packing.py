"""Packs examples into rows: one document, then several (schema, answer) branches that do not see each other.

Within a row a token attends to its own document's prefix and its own branch only, and positions restart per document
and per branch, so that the loss is exactly that of the unpacked sequences at a third of the tokens.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from training.encoding import encoder_of
from training.examples import rendered
from training.mix import sample_mixed

IGNORED = -100
LENGTHS = (256, 512, 1024)  # of rows; the last is the context
_WEIGHT = 0.75  # the exponent: at 1 an answer of any length weighs the same, at 0 a token of any answer


@dataclass(frozen=True, slots=True)
class Batch:
    ids: Tensor  # [B, T] int64
    positions: Tensor  # [B, T] int64
    mask: Tensor  # [B, 1, T, T] bool, True = may attend
    targets: Tensor  # [B, T] int64, IGNORED where nothing is to be predicted
    weights: Tensor  # [B, T] float32, of each target: see `Row.add`


class Row:
    """One row being filled. Branch 0 is the prefix; document -1 is padding (which attends to padding)."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.ids: list[int] = []
        self.positions: list[int] = []
        self.documents: list[int] = []
        self.branches: list[int] = []
        self.targets: list[int] = []
        self.lengths: list[int] = []  # of the answer in the token's branch; 0 in a prefix
        self._documents = 0

    def add(self, prefix: list[int], branches: list[tuple[list[int], list[int]]]) -> bool:
        """Add a document; return False (and change nothing) when it does not fit. A branch is (rest of the prompt,
        answer with end token).

        A token weighs less in a longer answer, so that a label of one word, which takes as much understanding as a
        record of ten fields, is not drowned by it.
        """
        if len(self.ids) + len(prefix) + sum(len(p) + len(a) for p, a in branches) > self.length:
            return False
        self._put(prefix, 0, 0, [IGNORED] * len(prefix), 0)
        for number, (prompt, answer) in enumerate(branches, 1):
            targets = [IGNORED] * (len(prompt) - 1) + answer + [IGNORED]
            self._put(prompt + answer, len(prefix), number, targets, len(answer))
        self._documents += 1
        return True

    def _put(self, ids: list[int], position: int, branch: int, targets: list[int], length: int) -> None:
        self.ids += ids
        self.positions += range(position, position + len(ids))
        self.documents += [self._documents] * len(ids)
        self.branches += [branch] * len(ids)
        self.targets += targets
        self.lengths += [length] * len(ids)


def batch_of(rows: list[Row], pad_id: int) -> Batch:
    def tensor(name: str, fill: int) -> Tensor:
        return torch.tensor([getattr(row, name) + [fill] * (row.length - len(row.ids)) for row in rows])

    mask = mask_of(tensor("documents", -1), tensor("branches", 0))
    weights = weights_of(tensor("lengths", 0))
    return Batch(tensor("ids", pad_id), tensor("positions", 0), mask, tensor("targets", IGNORED), weights)


def mask_of(documents: Tensor, branches: Tensor) -> Tensor:
    """Return who may attend to whom, [B, T] -> [B, 1, T, T]."""
    length = documents.size(1)
    same = documents[:, :, None] == documents[:, None, :]
    seen = (branches[:, None, :] == 0) | (branches[:, :, None] == branches[:, None, :])
    return (same & seen & torch.ones(length, length, dtype=torch.bool, device=documents.device).tril())[:, None]


def weights_of(lengths: Tensor) -> Tensor:
    """Return the weight of a token in an answer of each length; 0 where the length is 0."""
    return lengths.clamp_min(1).float() ** -_WEIGHT * (lengths > 0)


def row_length(step: int) -> int:
    """Return how many tokens a row has: mostly few, whose attention costs least, and often enough many to be learnt."""
    return LENGTHS[2] if step % 16 == 0 else LENGTHS[1] if step % 4 == 2 else LENGTHS[0]


def sample_batch(tokenizer: Any, seed: str, rows: int, length: int, questions: int = 4) -> Batch:
    """Draw a fresh batch; the same seed gives the same batch."""
    return batch_of(sample_rows(tokenizer, seed, rows, length, questions), tokenizer.pad_token_id)


def sample_rows(tokenizer: Any, seed: str, rows: int, length: int, questions: int = 4) -> list[Row]:
    """Draw the rows of a fresh batch; the same seed gives the same rows."""
    rng = random.Random(seed)
    return [_sample_row(tokenizer, rng, length, questions) for _ in range(rows)]


def _sample_row(tokenizer: Any, rng: random.Random, length: int, questions: int) -> Row:
    row, misses, encode = Row(length), 0, encoder_of(tokenizer).ids
    while misses < 3:
        example = sample_mixed(rng, questions, 7 if length <= 256 else 10 if length <= 512 else 14)
        prefix, branches = rendered(tokenizer, example)
        prefix_ids = encode(prefix)
        encoded = [(encode(prompt), [*encode(answer), tokenizer.eos_token_id]) for prompt, answer in branches]
        while encoded and not row.add(prefix_ids, encoded):
            encoded = encoded[:-1] if misses else []
        misses += not encoded
    return row
