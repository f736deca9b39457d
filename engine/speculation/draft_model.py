"""Draft with a smaller model of the same tokenizer, for all sequences of a step together.

It has its own KV cache, rolled back to the accepted tokens. Tokens that the grammar forces between two draft tokens
cost no extra pass.
"""

from __future__ import annotations

import time
from collections.abc import Sequence as Seq

from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.memory.blocks import BlockPool, OutOfBlocks
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.sequences.sequence import Sequence, SequenceState
from sluicegate.engine.speculation.draft_sampling import Draft, DraftSampler, Wanted, drafting


class ModelDrafter:
    """A `BatchDrafter`. Used by the engine thread alone."""

    def __init__(self, model: LoadedModel, runner: ModelRunner, pool: BlockPool, *, budget: int) -> None:
        """Begin without sequences. `budget`: most new tokens of one forward pass; a longer prompt is read over several
        steps."""
        self.seconds_a_token = 0.0
        self._runner = runner
        self._pool = pool
        self._budget = budget
        self._sampler = DraftSampler(model)
        self._shadows: dict[Sequence, Sequence] = {}

    def guess(self, wanted: Seq[Wanted]) -> list[list[int]]:
        """Draft as `BatchDrafter.guess` says; [] for a sequence without free blocks, or whose prompt is not read
        yet."""
        began, rounds = time.perf_counter(), 0
        self.release()
        with drafting(wanted) as guesses:
            self._catch_up(guesses)
            while live := [guess for guess in guesses if not guess.over]:
                self._round(live)
                rounds += 1
        # Catching up with a prompt is part of the price.
        seconds = (time.perf_counter() - began) / max(1, rounds)
        self.seconds_a_token += 0.1 * (seconds - self.seconds_a_token)
        return [guess.found for guess in guesses]

    def learn(self, batch: Batch) -> None:
        """Return at once: this drafter needs only the tokens."""

    def release(self) -> None:
        for target in [target for target in self._shadows if target.state is not SequenceState.RUNNING]:
            self._pool.release(self._shadows.pop(target).blocks)

    def close(self) -> None:
        self._runner.close()

    def _catch_up(self, guesses: list[Draft]) -> None:
        """Compute all tokens but the newest of each sequence; end the drafts of those that exceed the budget."""
        room, rows = self._budget, []
        for guess in guesses:
            shadow = self._shadow_of(guess.sequence)
            behind = shadow.pending - 1
            count = min(behind, room)
            guess.over = count < behind or not self._reserve(shadow)
            if count > 0 and self._reserve(shadow):
                room -= count
                rows.append(BatchRow.of(shadow, count))
        if rows:
            self._runner.run(Batch(sorted(rows, key=lambda row: row.count)))
            for row in rows:
                row.sequence.computed += row.count

    def _round(self, live: list[Draft]) -> None:
        """Draw one more token for each draft, and append the tokens the grammar forces after it."""
        shadows = {id(guess): self._shadows[guess.sequence] for guess in live}
        live.sort(key=lambda guess: shadows[id(guess)].pending)
        rows = [BatchRow.of(shadow, shadow.pending) for shadow in (shadows[id(guess)] for guess in live)]
        logits = self._runner.run(Batch(rows))
        self._sampler.grow(live, logits)
        for guess in live:
            shadow = shadows[id(guess)]
            shadow.computed = len(shadow.tokens)
            shadow.tokens = guess.sequence.tokens + guess.found
            guess.over = guess.over or not self._reserve(shadow)

    # --- the small model's own sequences -----------------------------------------------------------------------

    def _shadow_of(self, target: Sequence) -> Sequence:
        """Return the small model's sequence for `target`, rolled back to their common tokens."""
        shadow = self._shadows.get(target)
        if shadow is None:
            shadow = self._shadows[target] = _shadow(target)
        same = shadow.prompt_length  # tokens known to be the target's since the last time
        while same < min(shadow.computed, len(target.tokens)) and shadow.tokens[same] == target.tokens[same]:
            same += 1
        shadow.computed = min(shadow.computed, same, len(target.tokens) - 1)
        shadow.tokens = list(target.tokens)
        shadow.prompt_length = len(target.tokens)
        return shadow

    def _reserve(self, shadow: Sequence) -> bool:
        missing = self._pool.blocks_for(len(shadow.tokens)) - len(shadow.blocks)
        try:
            shadow.hold(self._pool.take(missing) if missing > 0 else [])
        except OutOfBlocks:
            return False
        return True


def _shadow(target: Sequence) -> Sequence:
    """Make a sequence for the small model, of which only tokens and blocks are used."""
    return Sequence(
        tokens=list(target.tokens),
        prompt_length=len(target.tokens),
        max_length=target.max_length,
        sampling=target.sampling,
        rule=target.rule,
        seed=target.seed,
        tenant=target.tenant,
        priority=target.priority,
        root=target.root,
        owner=target.owner,
        output=target.output,
    )
