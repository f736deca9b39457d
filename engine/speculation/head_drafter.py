"""Draft with the model's own draft heads, from the states of its last step: no second model, no second KV cache."""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.batching.batch import Batch
from sluicegate.engine.checkpoints.draft_heads import DraftHeads
from sluicegate.engine.cpu import products_of
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.sequences.sequence import Sequence
from sluicegate.engine.speculation.draft_sampling import Draft, DraftSampler, Wanted, drafting

I64 = npt.NDArray[np.int64]


class HeadDrafter:
    """A `BatchDrafter`. Drafts only for sequences with a state from their last draw (`Sequence.hidden`)."""

    def __init__(self, model: LoadedModel, heads: DraftHeads) -> None:
        self.seconds_a_token = 0.0
        self._heads = heads
        self._embedding = model.module.get_input_embeddings().weight  # [V, d]
        self._vocabulary = model.module.get_output_embeddings().weight.float()  # [V, d]
        self._compiled = products_of(heads, self._embedding, self._vocabulary)
        self._sampler = DraftSampler(model)

    def guess(self, wanted: Seq[Wanted]) -> list[list[int]]:
        began = time.perf_counter()
        with drafting(wanted) as guesses:
            self._fill(guesses)
        found = [guess.found for guess in guesses]
        if longest := max(map(len, found)):
            self.seconds_a_token += 0.1 * ((time.perf_counter() - began) / longest - self.seconds_a_token)
        return found

    def learn(self, batch: Batch) -> None:
        """Return at once: the state it reads is stored in each sequence."""

    def release(self) -> None:
        """Return at once: it stores nothing about sequences."""

    def close(self) -> None:
        """Return at once: the drafter has no threads."""

    def _fill(self, guesses: list[Draft]) -> None:
        ready = [guess for guess in guesses if guess.sequence.hidden is not None]
        if not ready:
            return
        states = {id(guess): guess.sequence.hidden for guess in ready}
        while live := [guess for guess in ready if not guess.over and 1 <= _head(guess) <= self._heads.count]:
            known = torch.stack([state for guess in live if (state := states[id(guess)]) is not None])
            index = np.array([_head(guess) - 1 for guess in live])
            before = np.array([_newest(guess) for guess in live])
            self._sampler.grow(live, self._logits(index, known, before))

    def _logits(self, heads: I64, states: Tensor, before: I64) -> Tensor:
        """Return logits [R, V] float32 of heads [R] for states [R, d] and the tokens [R] before the drafted ones."""
        if self._compiled is not None:
            return self._compiled.logits(heads, states, before)
        tokens = torch.from_numpy(before).to(self._embedding.device)
        index = torch.from_numpy(heads).to(states.device)
        found: Tensor = self._heads.one(index, states.float(), self._embedding[tokens].float()) @ self._vocabulary.T
        return found


def _newest(guess: Draft) -> int:
    return guess.found[-1] if guess.found else guess.sequence.tokens[-1]


def _head(guess: Draft) -> int:
    """Return the number of the head for the next position: its distance from the state's position."""
    sequence: Sequence = guess.sequence
    return len(sequence.tokens) + len(guess.found) - sequence.hidden_length
