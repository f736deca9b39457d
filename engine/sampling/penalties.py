"""Penalise many rows of logits at once, on any device, with one copy; other rows cost nothing.

`engine.sampling.cpu_draws` does the same on CPUs, row by row; both compute in float64, so their bits are equal.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.cuda.staging import Staging
from sluicegate.engine.sampling.rows import LogitsRow, SequencesCache

I64 = npt.NDArray[np.int64]


class SeenTokens:
    """The distinct tokens of one sequence, and their counts in its output; updated as the sequence grows."""

    def __init__(self) -> None:
        self._of: list[int] | None = None
        self._length = 0
        self._indices: dict[int, int] = {}
        self._tokens: I64 = np.zeros(0, np.int64)
        self._counts: I64 = np.zeros(0, np.int64)

    def follow(self, history: list[int], prompt_length: int) -> None:
        """Add the tokens that `history` has gained since the last call; start anew if it is another list."""
        if history is not self._of or len(history) < self._length:
            self._begin(np.array(history, np.int64), prompt_length)
        else:
            for token in history[self._length :]:
                self._count(token)
        self._of, self._length = history, len(history)

    def found(self) -> tuple[I64, I64]:
        """Return the tokens [K] and their counts [K] in the output; valid until the next call."""
        return self._tokens[: len(self._indices)], self._counts[: len(self._indices)]

    def with_more(self, tokens: Seq[int]) -> tuple[I64, I64]:
        """Return the same as `found`, as if `tokens` were appended to the output."""
        other = SeenTokens()
        other._indices, other._tokens, other._counts = dict(self._indices), self._tokens.copy(), self._counts.copy()
        for token in tokens:
            other._count(token)
        return other.found()

    def _begin(self, tokens: I64, prompt_length: int) -> None:
        self._tokens = np.unique(tokens)
        self._counts = np.zeros(len(self._tokens), np.int64)
        output, counts = np.unique(tokens[prompt_length:], return_counts=True)
        self._counts[np.searchsorted(self._tokens, output)] = counts
        self._indices = dict(zip(self._tokens.tolist(), range(len(self._tokens)), strict=True))

    def _count(self, token: int) -> None:
        index = self._indices.setdefault(token, len(self._indices))
        if index == len(self._tokens):  # no room
            more = np.zeros(max(64, index), np.int64)
            self._tokens, self._counts = (np.concatenate([one, more]) for one in (self._tokens, self._counts))
        self._tokens[index] = token
        self._counts[index] += 1


class Penalties:
    """Applies penalties to a step's rows. For one thread."""

    def __init__(self) -> None:
        self._seen: dict[object, SeenTokens] = {}
        self._penalised: SequencesCache[LogitsRow, list[int]] = SequencesCache(self._rows_of)
        self._staging: Staging | None = None

    def apply(self, logits: Tensor, rows: Seq[LogitsRow]) -> None:
        """Penalise `logits` [R, V] float32 in place: the repetition penalty divides positive and multiplies negative
        logits of tokens in prompt or output, then frequency and presence are subtracted for tokens in the output."""
        penalised = self._penalised.of(rows)
        if not penalised:
            return
        owners, indices, counts, rules = self._sent(penalised, rows, logits)
        values, (repetition, frequency, presence) = logits.view(-1)[indices].double(), rules[owners].unbind(1)
        values = torch.where(values > 0, values / repetition, values * repetition)
        logits.view(-1)[indices] = (values - frequency * counts - presence * (counts > 0)).float()

    def release(self) -> None:
        """Drop all references to sequences."""
        self._seen = {}
        self._penalised.forget()

    def _rows_of(self, rows: Seq[LogitsRow]) -> list[int]:
        found = [at for at, row in enumerate(rows) if row.rule.penalises]
        self._seen = {rows[at].sequence: self._seen.get(rows[at].sequence) or SeenTokens() for at in found}
        return found

    def _sent(self, penalised: list[int], rows: Seq[LogitsRow], like: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Copy to the device of `like` [R, V], at once: for each token seen by a row, its penalised row, its index in
        the flattened logits and its count, [K] each; and the rules [P, 3] float64 of the penalised rows."""
        found = [self._tokens_of(rows[at]) for at in penalised]
        sizes = [len(tokens) for tokens, _ in found]
        total = sum(sizes)
        self._staging = self._staging or Staging(torch.int64, like.device)
        room = self._staging.room(3 * (total + len(penalised)))
        owners, indices, counts = room[: 3 * total].reshape(3, total)
        owners[:] = np.repeat(np.arange(len(penalised)), sizes)
        np.concatenate([tokens for tokens, _ in found], out=indices)
        indices += np.repeat(np.array(penalised) * like.shape[1], sizes)
        np.concatenate([many for _, many in found], out=counts)
        rules = [rows[at].rule for at in penalised]
        room[3 * total :].view(np.float64)[:] = [
            number for rule in rules for number in (rule.repetition, rule.frequency, rule.presence)
        ]
        sent = self._staging.send(len(room))
        here = sent[: 3 * total].view(3, total)
        return here[0], here[1], here[2], sent[3 * total :].view(torch.float64).view(-1, 3)

    def _tokens_of(self, row: LogitsRow) -> tuple[I64, I64]:
        seen = self._seen[row.sequence]
        seen.follow(row.history, row.prompt_length)
        return seen.with_more(row.guessed) if row.guessed else seen.found()
