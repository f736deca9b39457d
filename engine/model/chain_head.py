"""Define the interface of draft heads that read the model's states and then their own."""

from __future__ import annotations

from collections.abc import Sequence as Seq
from typing import Protocol

from torch import Tensor

from sluicegate.engine.attention.paged import AttentionStep
from sluicegate.engine.memory.kv import LayerShape


class ChainHead(Protocol):
    """Implemented by `engine.checkpoints.eagle3.Eagle3` and `engine.model.mtp.MtpHead`. T tokens, R rows, V the model's
    vocabulary, d the width of the head's own states."""

    layers: tuple[int, ...]
    """Whose states it reads; 1 = behind the first."""
    shape: LayerShape
    """What it keeps of each token."""

    def features(self, states: Seq[Tensor]) -> Tensor:
        """Convert `states` [T, D] of each of its layers, lowest first, to one state [T, d]."""

    def advance(self, tokens: Tensor, states: Tensor, positions: Tensor, step: AttentionStep) -> Tensor:
        """Return the head's state [T, d] after each of `tokens` [T], given the state before it: `states` [T, d]."""

    def logits(self, states: Tensor) -> Tensor:
        """Return logits [R, V] float32 of the tokens after `states` [R, d], which the caller may overwrite."""
