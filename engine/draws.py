"""Penalties, masks and draws in torch: for any device, and the twin that the CPU kernels are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.masks import Bitmask, apply_bitmask
from engine.noise import uniform
from engine.params import DrawRule
from engine.sequence import DrawRow

_FORBIDDEN = float("-inf")


class TorchDraws:
    """Every method takes `logits` [R, V] float32; all but `choose` change it in place."""

    def penalise(self, logits: Tensor, rows: Seq[DrawRow]) -> None:
        """Repetition (divides positive, multiplies negative logits of tokens in prompt or output), then frequency and
        presence (subtract for tokens in the output). Only the columns of tokens seen are touched."""
        for index, row in enumerate(rows):
            if row.rule.penalises:
                _penalise(logits[index], row)

    def refuse(self, logits: Tensor, rows: list[int], bitmask: Bitmask) -> None:
        """See `apply_bitmask`."""
        apply_bitmask(logits, rows, bitmask)

    def choose(self, logits: Tensor, rows: Seq[DrawRow]) -> tuple[list[float], list[int]]:
        """(largest logit, chosen token) of each row. A NaN anywhere in a row makes its largest logit NaN."""
        best, argmax = logits.max(-1)
        largest, tokens = best.tolist(), argmax.tolist()
        random = [i for i, row in enumerate(rows) if not row.rule.greedy and math.isfinite(largest[i])]
        if random:
            chosen = logits if len(random) == len(rows) else logits[random]
            for i, token in zip(random, _draw(chosen, [rows[i] for i in random]), strict=True):
                tokens[i] = token
        return largest, tokens


def _draw(logits: Tensor, rows: Seq[DrawRow]) -> list[int]:
    rules = [row.rule for row in rows]
    scaled = logits / _column([rule.temperature for rule in rules], logits)
    at = _column([uniform(row.seed, row.position) for row in rows], logits, torch.float64)
    if not any(rule.is_cut for rule in rules):
        return _invert(torch.softmax(scaled, -1), at).tolist()
    narrow = [i for i, rule in enumerate(rules) if rule.is_cut]
    wide = [i for i, rule in enumerate(rules) if not rule.is_cut]
    tokens = torch.empty(len(rows), dtype=torch.int64, device=logits.device)
    tokens[narrow] = _draw_cut(scaled[narrow], [rules[i] for i in narrow], at[narrow])
    if wide:
        tokens[wide] = _invert(torch.softmax(scaled[wide], -1), at[wide])
    return tokens.tolist()


def _draw_cut(scaled: Tensor, rules: Seq[DrawRule], at: Tensor) -> Tensor:
    """Draw among the likeliest, in sorted order: rank < top_k, mass before < top_p, probability >= min_p * largest."""
    columns = scaled.shape[1]
    ranks = [rule.top_k or columns for rule in rules]
    values, tokens = scaled.topk(min(max(ranks), columns), -1)  # [R, K], sorted
    rank = torch.arange(values.shape[1], device=scaled.device)
    values = values.masked_fill(rank >= _column(ranks, scaled, torch.int64), _FORBIDDEN)
    p = torch.softmax(values, -1)
    cut = p.cumsum(-1) - p >= _column([max(rule.top_p, 1e-9) for rule in rules], scaled)
    cut |= p < p[:, :1] * _column([rule.min_p for rule in rules], scaled)
    cut[:, 0] = False
    return tokens.gather(1, _invert(p.masked_fill(cut, 0), at).unsqueeze(1)).squeeze(1)


def _invert(p: Tensor, at: Tensor) -> Tensor:
    """The first index whose cumulated `p` [R, K] exceeds the share `at` [R, 1] of the total; never one with p = 0.

    Sums are taken in float64: over 128k columns float32 would lose the tail.
    """
    total = p.cumsum(-1, dtype=torch.float64)
    return torch.searchsorted(total, at * total[:, -1:], right=True).clamp_(max=p.shape[1] - 1).squeeze(1)


def _column(values: Seq[float], like: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.tensor(values, dtype=dtype, device=like.device).unsqueeze(1)


def _penalise(logits: Tensor, row: DrawRow) -> None:
    rule, tokens = row.rule, row.tokens
    seen = np.unique(np.asarray(tokens))
    columns = torch.from_numpy(seen).to(logits.device)
    counts = torch.from_numpy(_counts(tokens[row.prompt_length :], seen)).to(logits)
    values = logits[columns]
    values = torch.where(values > 0, values / rule.repetition, values * rule.repetition)
    logits[columns] = values - rule.frequency * counts - rule.presence * (counts > 0)


def _counts(output: list[int], of: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    tokens, counts = np.unique(np.asarray(output, np.int64), return_counts=True)
    found = np.zeros(len(of), np.int64)
    found[np.searchsorted(of, tokens)] = counts
    return found
