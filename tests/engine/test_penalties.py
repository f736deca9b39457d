"""Penalties, biases and early ends of many rows at once, on any device, have the bits of the CPU's row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.engine.batching.sample_rows import SampleRow
from sluicegate.engine.sampling.cpu_draws import CpuDraws
from sluicegate.engine.sampling.outcomes import MaskRows
from sluicegate.engine.sampling.penalties import SeenTokens
from sluicegate.engine.sampling.sampler import Sampler
from sluicegate.engine.sampling.torch_draws import TorchDraws
from sluicegate.engine.sequences.sequence import Sequence
from tests.engine.rows import a_row, a_sequence

V = 50
PENALTIES = st.fixed_dictionaries(
    {},
    optional={
        "repetition_penalty": st.floats(0.3, 3.0),
        "frequency_penalty": st.floats(-2, 2),
        "presence_penalty": st.floats(-2, 2),
        "logit_bias": st.dictionaries(st.integers(0, V - 1), st.floats(-100, 100), max_size=3),
        "min_tokens": st.integers(0, 4),
        "stop_token_ids": st.sampled_from([(), (7,), (3, 9)]),
    },
)
TOKENS = st.lists(st.integers(0, V - 1), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TOKENS, TOKENS, PENALTIES), min_size=1, max_size=5), st.integers(0, 999), st.data())
def test_all_rows_at_once_have_the_bits_of_row_by_row(
    asked: list[tuple[list[int], list[int], dict[str, Any]]], seed: int, data: st.DataObject
) -> None:
    """Over steps in which sequences grow, guess, come and go; with infinite logits and NaN."""
    sequences = [
        a_sequence(prompt + output, prompt_length=len(prompt), vocab_size=V, **fields)
        for prompt, output, fields in asked
    ]
    draws, host = TorchDraws(), CpuDraws()
    generator = torch.Generator().manual_seed(seed)
    for _ in range(4):
        rows = _rows(data.draw(st.lists(st.sampled_from(sequences), min_size=1, unique_by=id)))
        logits = torch.randn(len(rows), V, generator=generator) * 5
        logits[0, :3] = torch.tensor([float("inf"), float("-inf"), float("nan")])
        expected = logits.clone()
        draws.penalise(logits, rows)
        host.penalise(expected, rows)
        assert np.array_equal(logits.numpy().view(np.int32), expected.numpy().view(np.int32))
        for sequence in sequences:
            sequence.tokens += data.draw(st.lists(st.integers(0, V - 1), max_size=2))
            sequence.draft = data.draw(st.lists(st.integers(0, V - 1), max_size=2))
        if data.draw(st.booleans()):  # as a beam search does
            sequences[0].tokens = [*sequences[0].tokens[: sequences[0].prompt_length], *data.draw(TOKENS)]


def _rows(sequences: list[Sequence]) -> list[SampleRow]:
    return [SampleRow(sequence, ahead) for sequence in sequences for ahead in range(len(sequence.draft) + 1)]


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(TOKENS, PENALTIES), min_size=1, max_size=5), st.integers(0, 999), st.sets(st.integers(0, 4)))
def test_biases_and_early_ends_are_those_of_each_row_alone(
    asked: list[tuple[list[int], dict[str, Any]]], seed: int, early: set[int]
) -> None:
    """What a row's logits become does not depend on the rows beside it."""
    rows = [a_row(tokens, vocab_size=V, seed=seed, **fields) for tokens, fields in asked]
    logits = torch.randn(len(rows), V, generator=torch.Generator().manual_seed(seed))
    unending = [at for at in range(len(rows)) if at in early]
    barred = {at: [11, 4, 11] for at in unending[::2]}
    found = logits.clone()
    _change(found, rows, MaskRows(unending=unending, barred=barred))
    for at, row in enumerate(rows):
        alone = logits[at : at + 1].clone()
        if row.rule.bias is not None:
            for column, value in row.sequence.sampling.logit_bias.items():
                alone[0, column] += value
        alone[0, [1, 2] if at in early else []] = float("-inf")
        alone[0, barred.get(at, [])] = float("-inf")
        alone[0, V - 2 :] = float("-inf")
        assert torch.equal(found[at : at + 1], alone)


def _change(logits: torch.Tensor, rows: list[SampleRow], masks: MaskRows) -> None:
    sampler = Sampler(V - 2, (1, 2), compiled=False)
    sampler._change(logits, rows, sampler._wishes.of(rows), masks)


def test_early_ends_follow_their_rows_from_step_to_step() -> None:
    """What was copied to the device is used again only for the same rows."""
    sampler = Sampler(V, (1,), compiled=False)
    for unending in ([0, 1], [0, 1], [1], [], [0]):
        logits = torch.zeros(2, V)
        sampler._bar(logits, MaskRows(unending=unending))
        assert logits.isinf().nonzero().tolist() == [[row, 1] for row in unending]


def test_a_long_history_is_counted_once() -> None:
    """Later steps look at what is new alone: what is old may even be gone."""
    history, seen = [5, 6, 5, 7], SeenTokens()
    seen.follow(history, 2)
    history += [6] * 200 + list(range(200))
    history[:4] = [0, 0, 0, 0]
    seen.follow(history, 2)
    tokens, counts = seen.found()
    expected = dict.fromkeys(range(200), 1) | {5: 2, 6: 201, 7: 2}
    assert dict(zip(tokens.tolist(), counts.tolist(), strict=True)) == expected
