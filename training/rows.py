"""Packed rows as small arrays: what makers write to files, and what the device makes tensors of.

A file holds rows of one length, int16 `[rows, 4, length]`: the tokens, their positions, who they belong to (sixteen
times the document plus the branch, -1 for padding) and, where the next token is to be predicted, the length of the
answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training.packing import IGNORED, Row, mask_of, weights_of

_BRANCHES = 16  # of one document, its prefix included
PLANES = 4


def compact(rows: Sequence[Row], pad_id: int) -> NDArray[np.int16]:
    """Put rows of one length into one array."""
    found = np.zeros((len(rows), PLANES, rows[0].length), dtype=np.int16)
    found[:, 0], found[:, 2] = pad_id, -1
    for planes, row in zip(found, rows, strict=True):
        end = len(row.ids)
        planes[0, :end], planes[1, :end] = row.ids, row.positions
        planes[2, :end] = np.array(row.documents) * _BRANCHES + row.branches
        planes[3, :end] = np.where(np.array(row.targets) == IGNORED, 0, row.lengths)
    return found


def expanded(rows: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return (ids, positions, mask, targets, weights) of compact rows, made where they lie; see `Batch`."""
    ids, positions, owners, lengths = rows.long().unbind(1)
    mask = mask_of(owners // _BRANCHES, owners % _BRANCHES)
    following = torch.nn.functional.pad(ids[:, 1:], (0, 1))
    return ids, positions, mask, following.where(lengths > 0, IGNORED), weights_of(lengths)


def write_rows(rows: NDArray[np.int16], path: Path) -> None:
    """Write a file that is whole as soon as it has its name."""
    unfinished = path.with_suffix(".part")
    with unfinished.open("wb") as file:
        np.save(file, rows)
    unfinished.replace(path)
