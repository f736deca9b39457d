"""Nothing of a step stays behind on the CPU: on torch's `meta` device, whose tensors have shapes and no numbers, an
operation that mixes devices fails as it would on a GPU, and so does every look at a number."""

from __future__ import annotations

import copy
import gc
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch

from sluicegate.engine import LoadedModel
from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.batching.sample_rows import SampleRow
from sluicegate.engine.batching.step_inputs import StepInputs
from sluicegate.engine.sampling.outcomes import MaskRows
from sluicegate.engine.sampling.sampler import Sampler
from sluicegate.engine.sampling.torch_draws import TorchDraws
from tests.engine.conftest import MakeModel
from tests.engine.rows import a_row

META = torch.device("meta")
V = 80


def rows() -> list[SampleRow]:
    """Greedy, drawn, cut, penalised, biased, typical, with a bad word."""
    asked: list[dict[str, Any]] = [
        {},
        {"temperature": 0.7},
        {"temperature": 0.7, "top_k": 5, "top_p": 0.9, "min_p": 0.1},
        {"temperature": 1.0, "repetition_penalty": 1.3, "frequency_penalty": 0.5, "logit_bias": {3: 2.0}},
        {"temperature": 1.0, "typical_p": 0.6},
    ]
    return [a_row([1, 2, 3], prompt_length=2, vocab_size=V, seed=i, **fields) for i, fields in enumerate(asked)]


def test_every_part_of_sampling_stays_on_its_device() -> None:
    draws, asked, logits = TorchDraws(), rows(), torch.zeros(5, V, device=META)
    draws.penalise(logits, asked)
    sampler = Sampler(V - 2, (5,), META)
    wishes = sampler._wishes.of(asked)
    assert wishes.bias is not None
    assert wishes.typical is not None
    sampler._change(logits, asked, wishes, MaskRows([0, 3], np.zeros((2, 3), np.int32), unending=[1]))
    wishes.typical.keep(logits)
    decided = draws.decide(logits, asked)
    assert (decided.device.type, decided.shape) == ("meta", (2, 5))
    for some in (asked[:1], asked[1:2], asked[2:3]):
        assert draws.decide(logits[: len(some)], some).device.type == "meta"


def test_the_only_number_that_a_draw_looks_at_is_its_result() -> None:
    """On a GPU the host waits once a step."""
    logits = torch.zeros(5, V, device=META)
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        Sampler(V, (), META).draw(logits, rows(), MaskRows())


@pytest.mark.parametrize("family", ["llama", "gemma2", "qwen3", "phi", "gpt2", "bloom"])
@torch.inference_mode()
def test_a_forward_pass_stays_on_its_device(family: str, tiny: MakeModel) -> None:
    """Single tokens, a draft and a chunk in one step."""
    model = _on_meta(tiny(family))
    runner = ModelRunner(model, 16, 4, RunnerOptions(attention="reference"))
    stretches = [
        TokenSpan(5, 1, np.array([0, 1])),
        TokenSpan(2, 3, np.array([2, 3])),
        TokenSpan(0, 9, np.array([4, 5, 6])),
    ]
    positions = np.concatenate([np.arange(s.start, s.end) for s in stretches])
    slots = np.concatenate([s.table[np.arange(s.start, s.end) // 4] * 4 for s in stretches])
    found = runner._run(StepInputs(positions % 7, positions, slots, np.array([0, 3, 12]), stretches))
    assert (found.device.type, found.shape) == ("meta", (3, model.vocab_size))
    runner.copy([(0, 7)])
    runner.scrub([3])


def _on_meta(model: LoadedModel) -> LoadedModel:
    gc.collect()  # runners of other tests take their hooks off the shared model when they go
    names = [field.name for field in fields(model) if field.init]
    values = {name: getattr(model, name) for name in names}
    return LoadedModel(**values | {"module": copy.deepcopy(model.module).to(META), "device": META})
