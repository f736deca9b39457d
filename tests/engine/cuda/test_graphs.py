"""Buckets, padding and buffers of captured steps, with a stand-in that does the recorded work again at each replay.
Only the capture itself needs a GPU."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor

pytest.importorskip("triton", reason="pip install 'sluicegate[cuda]' brings triton")

from sluicegate.engine import LoadedModel
from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.batching.step_inputs import StepInputs
from sluicegate.engine.cuda.capture import CudaCapture
from sluicegate.engine.cuda.graphs import buckets_up_to
from tests.engine.conftest import MakeModel

BLOCK = 4


class Again:
    """A `Capture` for CPUs: what it records is the call, so a replay computes from what the buffers hold by then."""

    def __init__(self) -> None:
        self.recorded = 0
        self.replayed = 0

    def __call__(self, work: Callable[[], None]) -> Callable[[], None]:
        work()
        self.recorded += 1

        def replay() -> None:
            self.replayed += 1
            work()

        return replay


def a_runner(model: LoadedModel) -> ModelRunner:
    return ModelRunner(model, 64, BLOCK, RunnerOptions(attention="triton"))


def steps(
    runner: ModelRunner, history: int, stretches: list[tuple[int, int]], seed: int = 0
) -> tuple[StepInputs, list[StepInputs]]:
    """Return the prompts' step, `history` tokens each, and the step after it with `stretches` of (sequence, tokens)."""
    random = np.random.default_rng(seed)
    ids = {sequence: random.integers(0, 250, 2 * history) for sequence, _ in stretches}
    blocks = -(-2 * history // BLOCK)
    tables = {sequence: np.arange(at * blocks, (at + 1) * blocks) for at, sequence in enumerate(ids)}

    def inputs(parts: list[tuple[int, int, int]]) -> StepInputs:
        found: list[list[int]] = [[], [], []]
        asked = []
        for sequence, start, count in parts:
            at = np.arange(start, start + count)
            found[0] += ids[sequence][at].tolist()
            found[1] += at.tolist()
            found[2] += (tables[sequence][at // BLOCK] * BLOCK + at % BLOCK).tolist()
            asked.append(TokenSpan(start, count, tables[sequence][: -(-(start + count) // BLOCK)]))
        tokens, positions, slots = (np.array(numbers, np.int64) for numbers in found)
        return StepInputs(tokens, positions, slots, np.arange(len(tokens)), asked)

    before = [inputs([(sequence, 0, history)]) for sequence in ids]
    return inputs([(sequence, history, count) for sequence, count in stretches]), before


@pytest.mark.parametrize("family", ["gemma2"])
@torch.inference_mode()
def test_a_replayed_step_gives_the_logits_of_one_that_is_not(family: str, tiny: MakeModel) -> None:
    """Three sequences, a draft among them, padded from five tokens to eight: no padded token is seen or kept."""
    captured, eager, capture = a_runner(tiny(family)), a_runner(tiny(family)), Again()
    captured.capture(capture, most_tokens=8)
    step, before = steps(eager, 12, [(0, 1), (1, 1), (2, 3)])
    for runner in (captured, eager):
        for prompt in before:
            runner._run(prompt)
    assert capture.replayed == 0, "a prompt is not a decode step"
    found, expected = captured._run(step), eager._run(step)
    assert (capture.recorded, capture.replayed) == (1, 1)
    assert torch.allclose(found, expected, atol=1e-4)
    for layer in range(len(eager.pool.keys)):
        assert torch.allclose(captured.pool.keys[layer], eager.pool.keys[layer], atol=1e-5)


@torch.inference_mode()
def test_only_the_wanted_logits_and_states_are_given(tiny: MakeModel) -> None:
    runner, capture = a_runner(tiny("llama")), Again()
    runner.keep_states()
    runner.capture(capture, most_tokens=4)
    step, before = steps(runner, 12, [(0, 1), (1, 2)])
    for prompt in before:
        runner._run(prompt)
    every = runner._run(step).clone()
    states = runner.states
    assert states is not None
    every_state = states.clone()
    some = StepInputs(step.ids, step.positions, step.slots, np.array([0, 2]), step.stretches)
    assert torch.equal(runner._run(some), every[[0, 2]])
    assert runner.states is not None
    assert torch.equal(runner.states, every_state[[0, 2]])


@torch.inference_mode()
def test_steps_that_no_graph_holds_are_computed_without_one(tiny: MakeModel) -> None:
    """Too many tokens, or a long chunk among them."""
    runner, capture = a_runner(tiny("llama")), Again()
    runner.capture(capture, most_tokens=2)
    for stretches in ([(0, 1), (1, 1), (2, 1)], [(0, 9)]):
        step, before = steps(runner, 12, stretches)
        for prompt in before:
            runner._run(prompt)
        assert runner._run(step).isfinite().all()
    assert capture.replayed == 0


@torch.inference_mode()
def test_a_capture_that_fails_leaves_steps_as_they_were(tiny: MakeModel, caplog: pytest.LogCaptureFixture) -> None:
    """The log says why, once."""

    def refuse(work: Callable[[], None]) -> Callable[[], None]:
        work()
        raise RuntimeError("operation not permitted when stream is capturing\nand much more")

    runner, eager = a_runner(tiny("llama")), a_runner(tiny("llama"))
    runner.capture(refuse, most_tokens=4)
    step, before = steps(runner, 12, [(0, 1)])
    found: list[Tensor] = []
    for one in (runner, eager):
        one._run(before[0])
        found.append(one._run(step))
    assert torch.equal(*found)
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [
        "decode steps are not captured as graphs, every kernel is launched by itself: RuntimeError: operation not "
        "permitted when stream is capturing"
    ]


def test_buckets_waste_little() -> None:
    """Up to 8 they double; above, padding is at most a quarter of a step."""
    assert buckets_up_to(24) == [1, 2, 4, 8, 16, 24]
    for most in (1, 3, 20, 272):
        found = buckets_up_to(most)
        assert found[-1] == most
        assert found == sorted(set(found))
        for low, high in pairwise(found):
            assert high <= 8 or high - low - 1 <= max(8, 0.25 * high)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="captures a graph, which only a CUDA device can")
def test_a_real_capture_replays_its_work() -> None:
    device = torch.device("cuda")
    given, found = torch.zeros(4, device=device), torch.zeros(4, device=device)
    replay = CudaCapture(device)(lambda: found.copy_(given * 2))
    given += 3
    replay()
    assert found.tolist() == [6, 6, 6, 6]
