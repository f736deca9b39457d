"""Compute the hidden states of whole texts without an engine, as training data for probes."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch
from torch import Tensor

from sluicegate.engine.model.embedding import alone
from sluicegate.engine.model.model import LoadedModel
from sluicegate.engine.probes.states import LayerStates


@torch.inference_mode()
def states_of(model: LoadedModel, ids: Seq[int], layers: Seq[int]) -> Tensor:
    """Return the states [T, L, d] float32 of `ids` [T] after `layers` [L], from one pass."""
    watched = LayerStates(model.module, layers, len(ids))
    tokens = torch.tensor(list(ids), dtype=torch.int64, device=model.device)
    model.hidden(tokens, torch.arange(len(ids), device=model.device), alone(list(ids)))
    return torch.stack([room[: len(ids)] for room in watched.rooms], 1)
