"""Train a probe: choose its layer on rows left out, fit it on all of them, write it with its card."""

from __future__ import annotations

import argparse
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sluicegate.engine.probes.probe import StateProbe, digest_of
from sluicegate.gateway.commands.probe.features import AnswerStates, layers_of, model_of, states
from sluicegate.gateway.commands.probe.fitting import Floats, ProbeSample, auc, fitted, part_of, sample_of, scores
from sluicegate.gateway.commands.probe.rows import LabelledAnswer

FOLDS = 5
TOKENS = 64
"""Most tokens of an answer, for a probe with a hidden layer."""
FALSE_ALARMS = 0.01


def trained(parsed: argparse.Namespace, rows: Sequence[LabelledAnswer]) -> dict[str, Any]:
    """Write the probe; return what its card says, and more. Raises `ModelLoadError` and `ConfigurationError`."""
    model = model_of(parsed)
    layers = layers_of(parsed.layers, model)
    found = states(model, rows, layers, parsed.unit_chars, tokens=TOKENS if parsed.hidden else 0)
    places, by_layer = chosen(parsed.layers, layers, found, rows)
    sample = sample_of(found, [row.bad for row in rows], places)
    held = left_out(sample, [fold_of(row.group) for row in rows], parsed.hidden, parsed.seed)
    bad = np.array([row.bad for row in rows])
    facts: dict[str, Any] = {
        "model_name": model.name,
        "kind": f"hidden layer of {parsed.hidden}" if parsed.hidden else "linear",
        "rows": len(rows),
        "bad": int(bad.sum()),
        "unit_chars": parsed.unit_chars,
        "auc": round(auc(held[bad], held[~bad]), 4),
        "auc_by_layer": by_layer,
        "block_at_1_percent": round(limit(held[~bad]), 4),
        "sources": sorted({row.source for row in rows}),
    }
    own = tuple(layers[at] for at in places)
    weights = fitted(sample, parsed.hidden, parsed.seed)
    StateProbe(parsed.name, own, weights, digest_of(model.version), facts).save(parsed.out)
    return {**facts, "out": str(parsed.out), "label": parsed.name, "layers": list(own), "model": model.name}


def chosen(
    given: str, layers: Sequence[int], found: Sequence[AnswerStates], rows: Sequence[LabelledAnswer]
) -> tuple[list[int], dict[str, float]]:
    """Return the places of the layers to read, and the AUC that each reaches alone on rows left out, where they were
    not named."""
    if given != "auto":
        return list(range(len(layers))), {}
    bad, folds = np.array([row.bad for row in rows]), [fold_of(row.group) for row in rows]
    reached = []
    for at in range(len(layers)):
        held = left_out(sample_of(found, [row.bad for row in rows], [at]), folds, 0, 0)
        reached.append(round(auc(held[bad], held[~bad]), 4))
    return [int(np.argmax(reached))], {str(layer): value for layer, value in zip(layers, reached, strict=True)}


def left_out(sample: ProbeSample, folds: Sequence[object], hidden: int, seed: int) -> Floats:
    """Return the score of each answer by a probe that saw none of its fold. A fold without which only one class would
    be left is scored by a probe of all."""
    held = np.zeros(len(sample.y))
    for fold in dict.fromkeys(folds):
        mine = torch.tensor([one == fold for one in folds])
        rest = part_of(sample, ~mine)
        known = rest if 0 < float(rest.y.sum()) < len(rest.y) else sample
        held[mine.numpy()] = scores(fitted(known, hidden, seed), part_of(sample, mine))
    return held


def fold_of(group: str) -> int:
    """Return the fold of a group. Rows of one group are in one fold, the same in every run."""
    return int.from_bytes(hashlib.sha256(group.encode("utf-8", "replace")).digest()[:4]) % FOLDS


def limit(harmless: Floats, share: float = FALSE_ALARMS) -> float:
    """Return the least score above all but `share` of `harmless`."""
    ordered = np.sort(harmless)[::-1]
    return float(np.nextafter(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2.0))
