"""Sample one token per row of logits, vectorised over the rows of a step.

    note raw logprobs -> penalties, bias -> refuse -> greedy, or
    temperature -> typical -> top-k -> top-p -> min-p -> draw

Logprobs are those of the model itself: before penalties, bias, masks and temperature, over all columns (as OpenAI and
`transformers` report them), so an unlikely token that a grammar enforced shows as unlikely. A draw inverts the
cumulative distribution with one number that depends on the row's seed and position alone: what else is in the batch
cannot change it.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from sluicegate.engine.sampling.bitmasks import Bitmask
from sluicegate.engine.sampling.cpu_draws import CpuDraws
from sluicegate.engine.sampling.logit_filters import keep_typical, refuse_bad_words
from sluicegate.engine.sampling.rows import LogitsRow, PerSequences
from sluicegate.engine.sampling.torch_draws import TorchDraws
from sluicegate.plugins import GenerationFailed

_FORBIDDEN = float("-inf")


class Drawn(NamedTuple):
    """A row's token; with logprobs asked for, its logprob and the likeliest (token, logprob), likeliest first. `law`
    and `likely`: the same among the tokens that the mask allows, for explained rows."""

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    law: float | None = None
    likely: tuple[tuple[int, float], ...] = ()


LIKELY = 16
"""Tokens of `Drawn.likely`."""


@dataclass(frozen=True, slots=True)
class MaskRows:
    """What rows may not draw: `masked[i]` is the row of `bitmask[i]`; the matchers of `free` rows allow every token;
    `unending` rows may not end yet, so not draw an end-of-sequence token."""

    masked: list[int] = field(default_factory=list)
    bitmask: Bitmask = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    """int32 [len(masked), ceil(V/32)]."""
    free: frozenset[int] = field(default_factory=frozenset)
    unending: list[int] = field(default_factory=list)
    barred: dict[int, list[int]] = field(default_factory=dict)
    """Further tokens that a row may not draw yet."""

    def covers(self, row: int) -> bool:
        """Whether a constrained row has a mask, or needs none."""
        at = bisect_left(self.masked, row)  # rows are in order
        return row in self.free or (at < len(self.masked) and self.masked[at] == row)


_NO_MASKS = MaskRows()


class Draws(Protocol):
    """The parts of sampling that differ by device; see `TorchDraws` for shapes."""

    def room(self, rows: int, words: int) -> Bitmask: ...

    def penalise(self, logits: Tensor, rows: Seq[LogitsRow]) -> None: ...

    def refuse(self, logits: Tensor, rows: list[int], bitmask: Bitmask) -> None: ...

    def choose(
        self, logits: Tensor, rows: Seq[LogitsRow], masked: Seq[int] = (), bitmask: Bitmask | None = None
    ) -> tuple[list[float], list[int]]: ...

    def release(self) -> None: ...


Outcome = Drawn | GenerationFailed


class _Wishes(NamedTuple):
    """What the sequences of a step's rows ask for."""

    plain: bool
    """None of them has a penalty, a bias or words that are barred."""
    reported: list[int]
    """Rows that report logprobs."""
    constrained: bool


def _wishes(rows: Seq[LogitsRow]) -> _Wishes:
    return _Wishes(
        all(row.rule.is_plain for row in rows),
        [i for i, row in enumerate(rows) if row.rule.logprobs is not None or row.is_explained],
        any(row.is_constrained for row in rows),
    )


class Sampler:
    """Samples for one model: columns from `usable_vocab` on are padding, never sampled. Not for several threads."""

    def __init__(
        self,
        usable_vocab: int,
        eos_token_ids: Seq[int] = (),
        device: torch.device | None = None,
        *,
        compiled: bool = True,
    ) -> None:
        """`device` of the logits; None = the CPU. Not `compiled`: by torch, also where there are loops for it."""
        self._usable = usable_vocab
        self._eos = list(eos_token_ids)
        self._draws = draws_on(device or torch.device("cpu")) if compiled else TorchDraws()
        self._wishes: PerSequences[LogitsRow, _Wishes] = PerSequences(_wishes)

    def room(self, rows: int, words: int) -> Bitmask:
        """Return zeroed masks [rows, words] int32, in memory that this device reads best."""
        return self._draws.room(rows, words)

    def draw(self, logits: Tensor, rows: Seq[LogitsRow], masks: MaskRows) -> list[Outcome]:
        """Return one outcome per row of `logits` [R, V] float32, which is overwritten. Rows that cannot be sampled (no
        finite logit is left, or a constrained row without a mask) fail alone."""
        wishes = self._wishes.of(rows)
        raw = _RawLogprobs(logits, rows, wishes.reported, self._usable) if wishes.reported else None
        draws = self._draws
        if wishes.plain:
            self._bar(logits, masks)
            best, tokens = draws.choose(logits, rows, masks.masked, masks.bitmask if masks.masked else None)
        else:
            draws.penalise(logits, rows)
            _add_bias(logits, rows)
            self._refuse(draws, logits, masks)
            refuse_bad_words(logits, rows)
            keep_typical(logits, rows)
            best, tokens = draws.choose(logits, rows)
        drawn: list[Outcome] = [
            tuple.__new__(Drawn, (token, None, (), None, ())) for token in tokens
        ]  # five times as fast
        if raw is not None:
            raw.report(drawn, masks)
        if not wishes.constrained and math.isfinite(sum(best)):
            return drawn
        return [_check(i, row, best[i], masks) or drawn[i] for i, row in enumerate(rows)]

    def tokens(self, logits: Tensor, rows: Seq[LogitsRow]) -> list[int] | None:
        """Draw as `draw` from `logits` [R, V] float32 for rows without grammar, penalties and logprobs; None, with
        nothing changed but padding, where a row wants more or cannot be sampled."""
        wishes = self._wishes.of(rows)
        if not wishes.plain or wishes.reported or wishes.constrained:
            return None
        self._bar(logits, _NO_MASKS)
        best, tokens = self._draws.choose(logits, rows)
        return tokens if math.isfinite(sum(best)) else None

    def score(
        self, logits: Tensor, rows: Seq[LogitsRow], masks: MaskRows
    ) -> tuple[Tensor, Tensor, dict[int, GenerationFailed]]:
        """Return, for beam search, logprobs [R, V] after penalties, bias, masks and bad words; the model's own [R, V];
        and the rows that cannot be scored. `logits` [R, V] float32 is kept. Penalties change logprobs here, not logits,
        as in `transformers`."""
        draws = self._draws
        raw = torch.log_softmax(logits, -1)
        scores = raw.clone()
        draws.penalise(scores, rows)
        _add_bias(scores, rows)
        self._refuse(draws, scores, masks)
        refuse_bad_words(scores, rows)
        best = raw.amax(-1).tolist()
        found = {i: _check(i, row, best[i], masks) for i, row in enumerate(rows)}
        return scores, raw, {i: failure for i, failure in found.items() if failure is not None}

    def release(self) -> None:
        """Hold on to no sequence: nothing runs any more."""
        self._wishes.forget()
        self._draws.release()

    def _refuse(self, draws: Draws, logits: Tensor, masks: MaskRows) -> None:
        self._bar(logits, masks)
        if masks.masked:
            draws.refuse(logits, masks.masked, masks.bitmask)

    def _bar(self, logits: Tensor, masks: MaskRows) -> None:
        """Set to -inf, in `logits` [R, V], padding and ends that would come too early."""
        if self._usable < logits.shape[1]:
            logits[:, self._usable :] = _FORBIDDEN
        for row in masks.unending:
            logits[row, self._eos] = _FORBIDDEN
        for row, tokens in masks.barred.items():
            logits[row, tokens] = _FORBIDDEN


def draws_on(device: torch.device) -> Draws:
    """Return the implementation for a device. On a CPU it compiles now, not under the first request."""
    if device.type == "cpu":
        host = CpuDraws()
        host.warm_up()
        return host
    if device.type == "cuda" and find_spec("triton") is not None:
        from sluicegate.engine.sampling.cuda_draws import CudaDraws

        return CudaDraws(device)
    return TorchDraws()


def _check(index: int, row: LogitsRow, best: float, masks: MaskRows) -> GenerationFailed | None:
    if row.is_constrained and not masks.covers(index):
        return GenerationFailed("a constrained request reached sampling without a mask; it was stopped, not sampled")
    if math.isfinite(best):
        return None
    if best == _FORBIDDEN:
        return GenerationFailed("no token is allowed here: mask, bias and padding together refuse the whole vocabulary")
    return GenerationFailed(f"the model computed {best} logits; check the checkpoint and its dtype")


def _add_bias(logits: Tensor, rows: Seq[LogitsRow]) -> None:
    for index, row in enumerate(rows):
        if row.rule.bias is not None:
            bias = row.rule.bias
            logits[index].index_add_(0, bias.columns.to(logits.device), bias.values.to(logits.device))


class _RawLogprobs:
    """Log-softmax of the rows that report logprobs, taken before the logits are changed."""

    def __init__(self, logits: Tensor, rows: Seq[LogitsRow], reported: list[int], usable: int) -> None:
        """`logits` [R, V]; only the rows `reported` are kept. Columns from `usable` on are padding."""
        self._rows = reported
        self._wanted = [rows[i].rule.logprobs or 0 for i in self._rows]
        self._values = torch.log_softmax(logits[self._rows], -1)  # [L, V]
        self._usable = usable
        self._explained = frozenset(i for i in reported if rows[i].is_explained)

    def report(self, drawn: list[Outcome], masks: MaskRows) -> None:
        """Replace the outcomes of reported rows by ones with logprobs."""
        tokens = [outcome.token_id for outcome in drawn if isinstance(outcome, Drawn)]
        columns = torch.tensor([[tokens[i]] for i in self._rows], device=self._values.device)
        chosen = self._values.gather(1, columns).squeeze(1).tolist()
        values, ids = (found.tolist() for found in self._values.topk(max(self._wanted), -1))
        for at, (row, wanted) in enumerate(zip(self._rows, self._wanted, strict=True)):
            top = tuple(zip(ids[at][:wanted], values[at][:wanted], strict=True))
            law, likely = self._under_mask(at, row, chosen[at], masks) if row in self._explained else (None, ())
            drawn[row] = Drawn(tokens[row], chosen[at], top, law, likely)

    def _under_mask(
        self, at: int, row: int, chosen: float, masks: MaskRows
    ) -> tuple[float, tuple[tuple[int, float], ...]]:
        """Return the logprob of the drawn token among those that the row's mask allows, and the likeliest of them."""
        values = self._values[at, : self._usable]
        place = bisect_left(masks.masked, row)
        if place < len(masks.masked) and masks.masked[place] == row:
            words = np.ascontiguousarray(masks.bitmask[place]).view(np.uint8)
            allowed = np.unpackbits(words, bitorder="little")[: self._usable].astype(bool)
            values = values.masked_fill(torch.from_numpy(~allowed).to(values.device), _FORBIDDEN)
        mass = float(values.logsumexp(-1))
        found, ids = (part.tolist() for part in values.topk(min(LIKELY, values.shape[-1])))
        likely = tuple((token, value - mass) for token, value in zip(ids, found, strict=True) if value > _FORBIDDEN)
        return min(0.0, chosen - mass), likely
