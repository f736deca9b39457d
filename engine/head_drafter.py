"""The model's own heads guess, from the states that its last step left: no second model, no keys and values."""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq

import torch

from engine.group_guessing import Guess, GuessSampler, Wanted, guessing
from engine.heads import DraftHeads
from engine.model import LoadedModel
from engine.sequence import Sequence


class HeadDrafter:
    """A `GroupDrafter`. Guesses only where the sequence has a state from its last draw (`Sequence.hidden`)."""

    def __init__(self, model: LoadedModel, heads: DraftHeads) -> None:
        self.seconds_a_token = 0.0
        self._heads = heads
        self._vocabulary = model.module.get_output_embeddings().weight.float()  # [V, d]
        self._sampler = GuessSampler(model)

    def guess(self, wanted: Seq[Wanted]) -> list[list[int]]:
        began = time.perf_counter()
        with guessing(wanted) as guesses:
            self._fill(guesses)
        found = [guess.found for guess in guesses]
        if longest := max(map(len, found)):
            self.seconds_a_token += 0.1 * ((time.perf_counter() - began) / longest - self.seconds_a_token)
        return found

    def release(self) -> None:
        """Heads hold on to nothing."""

    def _fill(self, guesses: list[Guess]) -> None:
        ready = [guess for guess in guesses if guess.sequence.hidden is not None]
        if not ready:
            return
        states = [hidden for guess in ready if (hidden := guess.sequence.hidden) is not None]
        inner = self._heads(torch.stack(states).float())  # [R, k, d]
        place = {id(guess): at for at, guess in enumerate(ready)}
        while live := [guess for guess in ready if not guess.over and 1 <= _head(guess) <= self._heads.count]:
            picked = torch.stack([inner[place[id(guess)], _head(guess) - 1] for guess in live])
            self._sampler.grow(live, picked @ self._vocabulary.T)


def _head(guess: Guess) -> int:
    """Which head guesses the next place: how far it is behind the token that was drawn from the state."""
    sequence: Sequence = guess.sequence
    return len(sequence.tokens) + len(guess.found) - sequence.hidden_length
