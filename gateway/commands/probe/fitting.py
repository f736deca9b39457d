"""Fit probes: logistic regression on the mean states of units, or a small hidden layer on those of tokens.

A unit counts as its answer does, and all units of an answer together count as one. Both classes weigh the same. Inputs
are brought to mean 0 and variance 1 for the fit, and the scale is folded into the weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.gateway.commands.probe.features import AnswerStates

Floats = npt.NDArray[np.float64]
DECAY = 3.0
"""Weight decay: factor of the squared weights of a linear probe, relative to the mean loss of an answer times 1,000."""
EPOCHS = 300


@dataclass(frozen=True, slots=True)
class ProbeSample:
    """`x` [n, k], the answer [n] of each row and the number of rows of each answer, `y` [answers] 0 or 1."""

    x: Tensor
    answer: Tensor
    y: Tensor
    tokens: Tensor
    unit: Tensor
    """For each token, its row in `x`."""


def sample_of(found: Sequence[AnswerStates], bad: Sequence[bool], at: Sequence[int]) -> ProbeSample:
    """Join the states of all answers into one sample. `at`: places of the layers that count."""
    x = torch.cat([one.units[:, at].flatten(1) for one in found])
    sizes = torch.tensor([len(one.units) for one in found])
    answer = torch.repeat_interleave(torch.arange(len(found)), sizes)
    first = torch.cat([torch.zeros(1).long(), sizes.cumsum(0)[:-1]])
    unit = torch.cat([one.unit_of + start for one, start in zip(found, first, strict=True)])
    tokens = torch.cat([one.tokens[:, at].flatten(1) for one in found])
    return ProbeSample(x, answer, torch.tensor(bad).float(), tokens, unit)


def part_of(sample: ProbeSample, kept: Tensor) -> ProbeSample:
    """Return the part of a sample that belongs to the answers in `kept` [answers] bool."""
    rows = kept[sample.answer]
    place, row_place = kept.long().cumsum(0) - 1, rows.long().cumsum(0) - 1
    token_rows = rows[sample.unit] if len(sample.unit) else torch.zeros(0).bool()
    unit = row_place[sample.unit[token_rows]]
    return ProbeSample(sample.x[rows], place[sample.answer[rows]], sample.y[kept], sample.tokens[token_rows], unit)


def fitted(sample: ProbeSample, hidden: int, seed: int = 0) -> dict[str, Tensor]:
    """Return the weights of a probe, as `Probe.weights`."""
    return _linear(sample) if not hidden else _with_hidden_layer(sample, hidden, seed)


def _weights(sample: ProbeSample) -> Tensor:
    """Return the weight of each row: a share of its answer, which is a share of its class."""
    bad = sample.y.sum().clamp(min=1)
    of_answer = torch.where(sample.y > 0, 0.5 / bad, 0.5 / (len(sample.y) - bad).clamp(min=1))
    sizes = torch.bincount(sample.answer, minlength=len(sample.y)).clamp(min=1)
    return (of_answer / sizes)[sample.answer]


def _linear(sample: ProbeSample) -> dict[str, Tensor]:
    weights, target = _weights(sample), sample.y[sample.answer]
    middle, scale = sample.x.mean(0), sample.x.std(0).clamp(min=1e-4)
    x = (sample.x - middle) / scale
    w, b = torch.zeros(x.shape[1], requires_grad=True), torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.LBFGS([w, b], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimiser.zero_grad()
        each = torch.nn.functional.binary_cross_entropy_with_logits(x @ w + b, target, reduction="none")
        total = (weights * each).sum() + DECAY / 1000 * w.square().sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    folded = (w / scale).detach()
    return {"w": folded.contiguous(), "b": (b.detach() - folded @ middle).reshape(1)}


def _with_hidden_layer(sample: ProbeSample, hidden: int, seed: int) -> dict[str, Tensor]:
    """Fit a probe with one hidden layer, as the gateway reads it: log-odds of tokens, and their mean over a unit."""
    weights, target = _weights(sample), sample.y[sample.answer]
    middle, scale = sample.tokens.mean(0), sample.tokens.std(0).clamp(min=1e-4)
    x, counts = (sample.tokens - middle) / scale, torch.bincount(sample.unit, minlength=len(sample.x)).clamp(min=1)
    generator = torch.Generator().manual_seed(seed)
    w1 = (torch.randn(hidden, x.shape[1], generator=generator) / x.shape[1] ** 0.5).requires_grad_()
    w = (torch.randn(hidden, generator=generator) / hidden**0.5).requires_grad_()
    b1, b = torch.zeros(hidden, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.AdamW([w1, b1, w, b], lr=3e-3, weight_decay=0.1)
    for _ in range(EPOCHS):
        optimiser.zero_grad()
        odds = torch.relu(x @ w1.T + b1) @ w + b
        pooled = torch.zeros(len(sample.x)).index_add(0, sample.unit, odds) / counts
        each = torch.nn.functional.binary_cross_entropy_with_logits(pooled, target, reduction="none")
        (weights * each).sum().backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    folded = (w1 / scale).detach()
    return {"w1": folded.contiguous(), "b1": (b1 - folded @ middle).detach(), "w": w.detach(), "b": b.detach()}


def scores(weights: dict[str, Tensor], sample: ProbeSample) -> Floats:
    """Return the score of each answer: its worst unit's, as in the gateway."""
    if "w1" in weights:
        odds = torch.relu(sample.tokens @ weights["w1"].T + weights["b1"]) @ weights["w"] + weights["b"]
        counts = torch.bincount(sample.unit, minlength=len(sample.x)).clamp(min=1)
        units = torch.zeros(len(sample.x)).index_add(0, sample.unit, odds) / counts
    else:
        units = sample.x @ weights["w"] + weights["b"]
    worst = torch.full((len(sample.y),), -1e9).scatter_reduce(0, sample.answer, units, "amax")
    return torch.sigmoid(worst).double().numpy()


def auc(bad: Floats, harmless: Floats) -> float:
    """Return how often a bad answer stands above a harmless one; ties count half."""
    ordered = np.sort(harmless)
    below, upto = np.searchsorted(ordered, bad, "left"), np.searchsorted(ordered, bad, "right")
    return float(np.mean((below + upto) / 2) / max(1, len(harmless)))
