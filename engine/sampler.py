"""From logits to one token per row, vectorised over the rows of a step.

    note raw logprobs -> penalties, bias -> refuse -> greedy, or temperature -> top-k -> top-p -> min-p -> draw

Logprobs are those of the model itself: before penalties, bias, masks and temperature, over all columns (as OpenAI and
`transformers` report them), so an unlikely token that a grammar enforced shows as unlikely.
A draw inverts the cumulative distribution with one number that depends on the row's seed and position alone: what else
is in the batch cannot change it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from engine.masks import Bitmask, apply_bitmask
from engine.noise import uniform
from engine.params import DrawRule
from engine.sequence import DrawRow
from plugins import GenerationFailed

_FORBIDDEN = float("-inf")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A row's token; with logprobs asked for, its logprob and the likeliest (token, logprob), likeliest first."""

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class MaskRows:
    """What rows may not draw: `masked[i]` is the row of `bitmask[i]`; the matchers of `free` rows allow every token;
    `unending` rows may not end yet, so not draw an end-of-sequence token."""

    masked: list[int] = field(default_factory=list)
    bitmask: Bitmask = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    """int32 [len(masked), ceil(V/32)]."""
    free: frozenset[int] = field(default_factory=frozenset)
    unending: list[int] = field(default_factory=list)

    def covers(self, row: int) -> bool:
        return row in self.free or row in self.masked


Outcome = Drawn | GenerationFailed


class Sampler:
    """Stateless but for what is constant for a model: columns from `usable_vocab` on are padding, never sampled."""

    def __init__(self, usable_vocab: int, eos_token_ids: Seq[int] = ()) -> None:
        self._usable = usable_vocab
        self._eos = list(eos_token_ids)

    def draw(self, logits: Tensor, rows: Seq[DrawRow], masks: MaskRows) -> list[Outcome]:
        """One outcome per row of `logits` [R, V] float32, which is overwritten. Rows that cannot be sampled (no finite
        logit is left, or a constrained row without a mask) fail alone."""
        raw = _RawLogprobs(logits, rows)
        _penalise(logits, rows)
        _add_bias(logits, rows)
        self._refuse(logits, masks)
        best, tokens = _choose(logits, rows)
        drawn = raw.of(tokens)
        return [_check(i, row, best[i], masks) or drawn[i] for i, row in enumerate(rows)]

    def _refuse(self, logits: Tensor, masks: MaskRows) -> None:
        logits[:, self._usable :] = _FORBIDDEN
        for row in masks.unending:
            logits[row, self._eos] = _FORBIDDEN
        if masks.masked:
            apply_bitmask(logits, masks.masked, masks.bitmask)


def _check(index: int, row: DrawRow, best: float, masks: MaskRows) -> GenerationFailed | None:
    if row.is_constrained and not masks.covers(index):
        return GenerationFailed("a constrained request reached sampling without a mask; it was stopped, not sampled")
    if math.isfinite(best):
        return None
    if best == _FORBIDDEN:
        return GenerationFailed("no token is allowed here: mask, bias and padding together refuse the whole vocabulary")
    return GenerationFailed(f"the model computed {best} logits; check the checkpoint and its dtype")


def _choose(logits: Tensor, rows: Seq[DrawRow]) -> tuple[list[float], list[int]]:
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
    cut = p.cumsum(-1) - p >= _column([rule.top_p for rule in rules], scaled)
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


def _penalise(logits: Tensor, rows: Seq[DrawRow]) -> None:
    """Repetition (divides positive, multiplies negative logits of tokens in prompt or output), then frequency and
    presence (subtract for tokens in the output). Only the columns of tokens seen are touched."""
    for index, row in enumerate(rows):
        rule = row.rule
        if not rule.penalises:
            continue
        tokens = row.tokens
        seen = torch.from_numpy(np.unique(np.asarray(tokens)))
        values = logits[index, seen]
        values = torch.where(values > 0, values / rule.repetition, values * rule.repetition)
        counts = torch.from_numpy(_counts(tokens[row.prompt_length :], seen.numpy())).to(values.dtype)
        logits[index, seen] = values - rule.frequency * counts - rule.presence * (counts > 0)


def _counts(output: list[int], of: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    tokens, counts = np.unique(np.asarray(output, np.int64), return_counts=True)
    found = np.zeros(len(of), np.int64)
    found[np.searchsorted(of, tokens)] = counts
    return found


def _add_bias(logits: Tensor, rows: Seq[DrawRow]) -> None:
    for index, row in enumerate(rows):
        if row.rule.bias is not None:
            logits[index].index_add_(0, row.rule.bias.columns, row.rule.bias.values)


class _RawLogprobs:
    """Log-softmax of the rows that report logprobs, taken before the logits are changed."""

    def __init__(self, logits: Tensor, rows: Seq[DrawRow]) -> None:
        self._count = len(rows)
        self._rows = [i for i, row in enumerate(rows) if row.rule.logprobs is not None]
        self._wanted = [rows[i].rule.logprobs or 0 for i in self._rows]
        self._values = torch.log_softmax(logits[self._rows], -1) if self._rows else None  # [L, V]

    def of(self, tokens: list[int]) -> list[Outcome]:
        drawn: list[Outcome] = [Drawn(token) for token in tokens]
        if self._values is None:
            return drawn
        chosen = self._values.gather(1, torch.tensor([[tokens[i]] for i in self._rows])).squeeze(1).tolist()
        values, ids = (found.tolist() for found in self._values.topk(max(self._wanted), -1))
        for at, (row, wanted) in enumerate(zip(self._rows, self._wanted, strict=True)):
            top = tuple(zip(ids[at][:wanted], values[at][:wanted], strict=True))
            drawn[row] = Drawn(tokens[row], chosen[at], top)
        return drawn
