"""Read the states of answers, a unit at a time, as the gateway cuts them when it serves."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sluicegate.engine import LoadedModel
from sluicegate.engine.construction import load
from sluicegate.engine.probes.texts import states_of
from sluicegate.engine.settings import ModelSettings, thread_count
from sluicegate.engine.text.prompt import render_chat
from sluicegate.gateway.commands.probe.rows import LabelledAnswer
from sluicegate.gateway.commands.progress import bar
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.judging.settings import AnswerProbeSettings
from sluicegate.safety.judging.units import UnitCutter


@dataclass(slots=True)
class AnswerStates:
    """Of one answer: `units` [u, L, d] float32, the mean states of each unit's tokens by layer; `tokens` [t, L, d],
    some of its tokens, and the unit [t] of each, where they were asked for."""

    units: Tensor
    tokens: Tensor
    unit_of: Tensor


def model_of(parsed: argparse.Namespace) -> LoadedModel:
    """Load the model as it is served, on as many threads. Raises `ModelLoadError`."""
    model = load(ModelSettings(parsed.model, dtype=parsed.dtype, device=parsed.device), weights=parsed.weights)
    torch.set_num_threads(thread_count(model.parameter_count))
    return model


def layers_of(given: str, model: LoadedModel) -> tuple[int, ...]:
    """Return the layers named, or up to six evenly over the depth. Raises `ConfigurationError`."""
    depth = len(model.layers)
    if given == "auto":
        count = min(6, depth)
        return tuple(sorted({max(1, round(depth * (at + 1) / count)) for at in range(count)}))
    try:
        found = tuple(sorted({int(word) for word in given.split(",")}))
    except ValueError:
        found = ()
    if not found or found[0] < 1 or found[-1] > depth:
        raise ConfigurationError(f"--layers {given!r}: expected numbers from 1 to {depth} with commas, or auto")
    return found


def states(
    model: LoadedModel,
    rows: Sequence[LabelledAnswer],
    layers: Sequence[int],
    unit_chars: int,
    *,
    tokens: int = 0,
) -> list[AnswerStates]:
    """Return the states of each answer. `tokens`: most of one answer that are kept one by one, evenly taken."""
    found: list[AnswerStates] = []
    show = bar("answers")
    for number, row in enumerate(rows):
        prompt, answer, unit_of = _tokenised(model, row, unit_chars)
        read = states_of(model, prompt + answer, layers)[len(prompt) :].float().cpu()  # [T, L, d]
        count = int(unit_of.max()) + 1
        sums = torch.zeros(count, *read.shape[1:]).index_add_(0, unit_of, read)
        sizes = torch.bincount(unit_of, minlength=count).clamp(min=1)
        kept = torch.linspace(0, len(read) - 1, min(tokens, len(read))).long() if tokens else torch.zeros(0).long()
        found.append(AnswerStates(sums / sizes[:, None, None], read[kept].clone(), unit_of[kept]))
        show(number + 1, len(rows))
    return found


def _tokenised(model: LoadedModel, row: LabelledAnswer, unit_chars: int) -> tuple[list[int], list[int], Tensor]:
    """Return the tokens of the prompt, of the answer, and for each of the latter its unit. What the model cannot read
    at once loses its end, and a prompt that long its beginning."""
    tokenizer, most = model.tokenizer, model.context_length
    shown = render_chat(tokenizer, [{"role": "user", "content": row.prompt}])
    prompt = list(tokenizer(shown, add_special_tokens=False)["input_ids"])[-(most // 2) :]
    prompt = prompt or [model.eos_token_ids[0]]
    encoded = tokenizer(row.text, add_special_tokens=False, return_offsets_mapping=tokenizer.is_fast)
    answer = list(encoded["input_ids"])[: most - len(prompt)] or [model.eos_token_ids[0]]
    units = _ends(row.text, unit_chars)
    spread = len(row.text) / len(answer)
    places = (
        [pair[0] for pair in encoded["offset_mapping"]]
        if tokenizer.is_fast
        else [at * spread for at in range(len(answer))]
    )
    return prompt, answer, torch.bucketize(torch.tensor(places[: len(answer)] or [0]), units, right=True)


def _ends(text: str, unit_chars: int) -> Tensor:
    """Return where each unit but the last ends."""
    longest = max(AnswerProbeSettings().longest_unit, unit_chars + 1)
    cutter = UnitCutter(unit_chars, longest)
    units = [*cutter.feed(text), *cutter.close()]
    return torch.tensor([unit.end for unit in units[:-1]], dtype=torch.long)
