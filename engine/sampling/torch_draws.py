"""Penalise, mask and draw with torch: for any device, and as the reference for the CPU kernels."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.cuda.staging import to_device
from sluicegate.engine.sampling.bitmasks import Bitmask, apply_bitmask
from sluicegate.engine.sampling.params import DrawRule
from sluicegate.engine.sampling.penalties import Penalties
from sluicegate.engine.sampling.rng import uniform
from sluicegate.engine.sampling.rows import LogitsRow

_FORBIDDEN = float("-inf")
Note = Callable[[Tensor], Tensor]
"""Maps tokens int64 [R] to numbers float64 [n], both on the device of the logits."""


class TorchDraws:
    """The operations of sampling in torch. All take `logits` [R, V] float32; all but `choose` modify it in place."""

    def __init__(self) -> None:
        self._penalties = Penalties()

    def penalise(self, logits: Tensor, rows: Seq[LogitsRow]) -> None:
        """Apply repetition, frequency and presence penalties; see `Penalties`."""
        self._penalties.apply(logits, rows)

    def room(self, rows: int, words: int) -> Bitmask:
        """Return zeroed masks [rows, words] int32, to fill and pass to `refuse`."""
        return np.zeros((rows, words), np.int32)

    def refuse(self, logits: Tensor, rows: list[int], bitmask: Bitmask) -> None:
        """Set refused logits to -inf; see `apply_bitmask`."""
        apply_bitmask(logits, rows, bitmask)

    def choose(
        self, logits: Tensor, rows: Seq[LogitsRow], masked: Seq[int] = (), bitmask: Bitmask | None = None
    ) -> tuple[list[float], list[int]]:
        """Return the largest logit and the chosen token of each row, after `refuse` if masks [len(masked), words] are
        given, which may overwrite `logits`. A NaN anywhere in what is left of a row makes its largest logit NaN."""
        if bitmask is not None:
            self.refuse(logits, list(masked), bitmask)
        largest, tokens = self.decide(logits, rows).tolist()  # where a device is waited for, once a step
        return largest, [int(token) for token in tokens]

    def choose_and_note(
        self, logits: Tensor, rows: Seq[LogitsRow], note: Note
    ) -> tuple[list[float], list[int], list[float]]:
        """Call `choose`; also return the values of `note` for the chosen tokens int64 [R], by the same copy."""
        decided, count = self.decide(logits, rows), len(rows)
        found = torch.cat([decided.flatten(), note(decided[1].long())]).tolist()
        return found[:count], [int(token) for token in found[count : 2 * count]], found[2 * count :]

    def decide(self, logits: Tensor, rows: Seq[LogitsRow]) -> Tensor:
        """Return largest logits and chosen tokens, [2, R] float64 on the device of `logits`; undefined for a row
        without a finite logit."""
        largest, tokens = logits.max(-1)
        random = [i for i, row in enumerate(rows) if not row.rule.greedy]
        if len(random) == len(rows):
            tokens = _draw(logits, rows)
        elif random:
            indices = _numbers(random, logits.device, torch.int64)
            tokens = tokens.index_copy(0, indices, _draw(logits.index_select(0, indices), [rows[i] for i in random]))
        return torch.stack([largest.double(), tokens.double()])

    def release(self) -> None:
        """Drop all references to rows."""
        self._penalties.release()


def _draw(logits: Tensor, rows: Seq[LogitsRow]) -> Tensor:
    """Draw a token int64 [R] from each row of `logits` [R, V]."""
    rules = [row.rule for row in rows]
    scaled = logits / _column([rule.temperature for rule in rules], logits)
    at = _column([uniform(row.seed, row.position) for row in rows], logits, torch.float64)
    narrow = [i for i, rule in enumerate(rules) if rule.is_cut]
    wide = [i for i, rule in enumerate(rules) if not rule.is_cut]
    if not narrow:
        return _invert(torch.softmax(scaled, -1), at)
    if not wide:
        return _draw_cut(scaled, rules, at)
    tokens = torch.empty(len(rows), dtype=torch.int64, device=logits.device)
    cut, whole = (_numbers(part, logits.device, torch.int64) for part in (narrow, wide))
    tokens[cut] = _draw_cut(scaled[cut], [rules[i] for i in narrow], at[cut])
    tokens[whole] = _invert(torch.softmax(scaled[whole], -1), at[whole])
    return tokens


def _draw_cut(scaled: Tensor, rules: Seq[DrawRule], at: Tensor) -> Tensor:
    """Draw among the likeliest of `scaled` [R, V], in sorted order: rank < top_k, mass before < top_p, probability >=
    min_p * largest. `at` [R, 1] float64 in [0, 1)."""
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
    """Return the first index int64 [R] whose cumulated `p` [R, K] exceeds the share `at` [R, 1] of the total; never one
    with p = 0.

    Sums are taken in float64: over 128k columns float32 would lose the tail.
    """
    total = p.cumsum(-1, dtype=torch.float64)
    return torch.searchsorted(total, at * total[:, -1:], right=True).clamp_(max=p.shape[1] - 1).squeeze(1)


def _column(values: Seq[float], like: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    return _numbers(values, like.device, dtype).unsqueeze(1)


def _numbers(values: Seq[float], device: torch.device, dtype: torch.dtype) -> Tensor:
    return to_device(torch.tensor(values, dtype=dtype), device)
