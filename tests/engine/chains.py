"""Heads that read states of the model and then their own, in turns of a prompt and of answers with guesses."""

from __future__ import annotations

from collections.abc import Callable

import torch

from sluicegate.engine.batching.batch import Batch, BatchRow
from sluicegate.engine.batching.runner import ModelRunner
from sluicegate.engine.sequences.sequence import SequenceState
from sluicegate.engine.speculation.chain_drafter import ChainDrafter
from tests.engine.driving import prompts
from tests.engine.rows import a_sequence
from tests.engine.tiny_models import EOS


def guess_by_turns(drafter: ChainDrafter, runner: ModelRunner, right: Callable[[list[int]], list[int]]) -> None:
    """Read a prompt in chunks, then answer with guesses of which some come true, and compare each of them with what
    `right` says that the 4 tokens after a text are guessed to be."""
    sequence = a_sequence(prompts([47])[0])
    sequence.state = SequenceState.RUNNING
    sequence.hold(list(range(32)))
    with torch.inference_mode():
        for turn, count in enumerate((40, 7, 1, 1, 2)):
            row = BatchRow(sequence, sequence.computed, count + len(sequence.draft), True, len(sequence.draft))
            batch = Batch([row])
            runner.run(batch)
            drafter.learn(batch)
            sequence.computed += count
            if sequence.pending:
                continue
            came_true, sequence.draft = sequence.draft[:1], []
            sequence.computed += len(came_true)
            forced = [9] if turn == 3 else []  # a grammar forces one that is not computed
            sequence.tokens += [*came_true, 3 + turn, *forced]
            (guessed,) = drafter.guess([(sequence, 4)])
            if turn != 3:
                told = right(sequence.tokens)
                assert guessed == told[: told.index(EOS) + 1 if EOS in told else None]  # an end ends a guess
                sequence.draft = guessed[:2] if turn < 4 else []
    drafter.release()
