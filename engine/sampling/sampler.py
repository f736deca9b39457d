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
from collections.abc import Sequence as Seq
from importlib.util import find_spec
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from sluicegate.engine.sampling.bitmasks import Bitmask
from sluicegate.engine.sampling.cpu_draws import CpuDraws
from sluicegate.engine.sampling.logit_filters import TypicalRows, refuse_bad_words
from sluicegate.engine.sampling.logit_indices import BiasIndices, ForbiddenEnds
from sluicegate.engine.sampling.outcomes import MaskRows, Outcome, SampledToken
from sluicegate.engine.sampling.raw_logprobs import RawLogprobs, ReportedRows
from sluicegate.engine.sampling.rows import LogitsRow, SequencesCache
from sluicegate.engine.sampling.torch_draws import Note, TorchDraws
from sluicegate.plugins import GenerationFailed

_FORBIDDEN = float("-inf")
_NO_MASKS = MaskRows()


class Draws(Protocol):
    """The operations of sampling that differ by device; see `TorchDraws` for shapes."""

    def room(self, rows: int, words: int) -> Bitmask: ...

    def penalise(self, logits: Tensor, rows: Seq[LogitsRow]) -> None: ...

    def refuse(self, logits: Tensor, rows: list[int], bitmask: Bitmask) -> None: ...

    def choose(
        self, logits: Tensor, rows: Seq[LogitsRow], masked: Seq[int] = (), bitmask: Bitmask | None = None
    ) -> tuple[list[float], list[int]]: ...

    def choose_and_note(
        self, logits: Tensor, rows: Seq[LogitsRow], note: Note
    ) -> tuple[list[float], list[int], list[float]]: ...

    def release(self) -> None: ...


class _ActiveFeatures(NamedTuple):
    """Sampling features used by a step's rows; tensors are on the device of the logits."""

    plain: bool
    """Whether no row has a penalty, a bias or barred tokens."""
    reported: ReportedRows | None
    """Rows that report logprobs."""
    constrained: bool
    bias: BiasIndices | None
    typical: TypicalRows | None
    worded: list[int]
    """Rows with bad words."""


class Sampler:
    """Samples for one model. Columns from `usable_vocab` on are padding and never drawn. For one thread."""

    def __init__(
        self,
        usable_vocab: int,
        eos_token_ids: Seq[int] = (),
        device: torch.device | None = None,
        *,
        compiled: bool = True,
    ) -> None:
        """Set up drawing on the `device` of the logits; None = the CPU. Not `compiled`: draw by torch even where
        kernels exist."""
        self._usable = usable_vocab
        self._device = device or torch.device("cpu")
        self._early_ends = ForbiddenEnds(eos_token_ids, self._device)
        self._draws = draws_on(self._device) if compiled else TorchDraws()
        self._wishes: SequencesCache[LogitsRow, _ActiveFeatures] = SequencesCache(self._wishes_of)

    def room(self, rows: int, words: int) -> Bitmask:
        """Return zeroed masks [rows, words] int32, in memory suited to this device."""
        return self._draws.room(rows, words)

    def draw(self, logits: Tensor, rows: Seq[LogitsRow], masks: MaskRows) -> list[Outcome]:
        """Return one outcome per row of `logits` [R, V] float32, which is overwritten. A row that cannot be sampled (no
        finite logit, or constrained without a mask) gets an error as its outcome."""
        wishes = self._wishes.of(rows)
        draws, noted = self._draws, None if wishes.reported is None else RawLogprobs(logits, wishes.reported)
        if wishes.plain and noted is None:
            self._bar(logits, masks)
            best, tokens = draws.choose(logits, rows, masks.masked, masks.bitmask if masks.masked else None)
        else:
            draws.penalise(logits, rows)
            self._change(logits, rows, wishes, masks)
            if wishes.typical is not None:
                wishes.typical.keep(logits)
            if noted is None:
                best, tokens = draws.choose(logits, rows)
            else:
                best, tokens, logprobs = draws.choose_and_note(logits, rows, noted.note)
        drawn: list[Outcome] = [
            tuple.__new__(SampledToken, (token, None, (), None, ())) for token in tokens
        ]  # five times as fast
        if noted is not None:
            noted.report(drawn, logprobs, masks, self._usable)
        if not wishes.constrained and math.isfinite(sum(best)):
            return drawn
        return [_check(i, row, best[i], masks) or drawn[i] for i, row in enumerate(rows)]

    def tokens(self, logits: Tensor, rows: Seq[LogitsRow]) -> list[int] | None:
        """Draw tokens as `draw` does, for rows without grammar, penalties and logprobs. None if a row uses any of these
        or cannot be sampled; `logits` [R, V] float32 then has only its padding changed."""
        wishes = self._wishes.of(rows)
        if not wishes.plain or wishes.reported is not None or wishes.constrained:
            return None
        self._bar(logits, _NO_MASKS)
        best, tokens = self._draws.choose(logits, rows)
        return tokens if math.isfinite(sum(best)) else None

    def score(
        self, logits: Tensor, rows: Seq[LogitsRow], masks: MaskRows
    ) -> tuple[Tensor, Tensor, dict[int, GenerationFailed]]:
        """Return, for beam search, logprobs [R, V] after penalties, bias, masks and bad words; the model's own logprobs
        [R, V]; and errors by row.

        `logits` [R, V] float32 is not modified. Penalties are applied to logprobs here, not to logits, as in
        `transformers`.
        """
        raw = torch.log_softmax(logits, -1)
        scores = raw.clone()
        self._draws.penalise(scores, rows)
        self._change(scores, rows, self._wishes.of(rows), masks)
        best = raw.amax(-1).tolist()
        found = {i: _check(i, row, best[i], masks) for i, row in enumerate(rows)}
        return scores, raw, {i: failure for i, failure in found.items() if failure is not None}

    def release(self) -> None:
        """Drop all references to sequences."""
        self._wishes.forget()
        self._draws.release()

    def _wishes_of(self, rows: Seq[LogitsRow]) -> _ActiveFeatures:
        worded = [i for i, row in enumerate(rows) if row.rule.bad_words]
        return _ActiveFeatures(
            all(row.rule.is_plain for row in rows),
            ReportedRows.of(rows, self._device),
            any(row.is_constrained for row in rows),
            BiasIndices.of(rows, self._device),
            TypicalRows.of(rows, self._device),
            worded,
        )

    def _change(self, logits: Tensor, rows: Seq[LogitsRow], wishes: _ActiveFeatures, masks: MaskRows) -> None:
        """Add biases to `logits` [R, V], and set padding, masked tokens and bad words to -inf."""
        if wishes.bias is not None:
            wishes.bias.add(logits)
        self._bar(logits, masks)
        if masks.masked:
            self._draws.refuse(logits, masks.masked, masks.bitmask)
        if wishes.worded:
            refuse_bad_words(logits, rows, wishes.worded)

    def _bar(self, logits: Tensor, masks: MaskRows) -> None:
        """Set padding and premature end tokens of `logits` [R, V] to -inf."""
        if self._usable < logits.shape[1]:
            logits[:, self._usable :] = _FORBIDDEN
        self._early_ends.refuse(logits, masks.unending, masks.barred)


def draws_on(device: torch.device) -> Draws:
    """Return the implementation for a device. On a CPU its kernels are compiled now, not under the first request."""
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
