"""Give recurrent layers of `transformers` the state of each sequence, though a step's sequences lie in one flattened
row.

A recurrent layer takes rows of equal length and a cache. So a step is cut into groups of sequences with equally many
new tokens, and the layer is called once per group, with a cache over that group's states. New states are written to the
pool only after the whole forward pass has succeeded: a pass that failed can be run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Literal, Protocol

import torch
from torch import Tensor

from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.memory.states import StateKey, StatePool, StateShape

CallLayer = Callable[[Tensor, Any], Any]
"""Maps states [B, T, d], and a cache with the interface of `transformers`, to a layer's output: a tensor [B, T, ...] or
several."""
_STEP: ContextVar[RecurrentStep | None] = ContextVar("_STEP", default=None)


class RecurrentStep(Protocol):
    """All recurrent layers within a step."""

    def mix(self, call: CallLayer, hidden: Tensor) -> Any:
        """Call a layer for the flattened row `hidden` [1, T, d]; return its output [1, T, ...], or a tuple of such
        outputs."""


def recurrent_step() -> RecurrentStep | None:
    """Return the step that `showing` set on this thread; None where no step with states runs."""
    return _STEP.get()


@contextmanager
def advancing(pool: StatePool | None, stretches: Seq[TokenSpan]) -> Iterator[None]:
    """Run a forward pass over the states of `stretches`, and write the new states when it has succeeded. Does nothing
    without a pool. Raises `StatePositionError` where a stretch does not continue at the position of its stored
    state."""
    if pool is None:
        yield
        return
    step = StateStep(pool, stretches)
    with showing(step):
        yield
    step.keep()


@contextmanager
def showing(step: RecurrentStep) -> Iterator[None]:
    """Make `step` the one that recurrent layers of this thread find."""
    token = _STEP.set(step)
    try:
        yield
    finally:
        _STEP.reset(token)


def in_a_row(join: Callable[[Seq[Tensor]], Tensor], parts: Seq[Any]) -> Any:
    """Join the outputs of a layer for parts of a step: tensors, or tuples of tensors, joined position by position."""
    if isinstance(parts[0], Tensor):
        return join(parts)
    return tuple(map(join, zip(*parts, strict=True)))


class StateStep:
    """A step over the states of a pool; `stretches` are in the order of the flattened row."""

    def __init__(self, pool: StatePool, stretches: Seq[TokenSpan]) -> None:
        for stretch in stretches:
            pool.check(stretch.state_slot, stretch.start)
        self._pool = pool
        self._stretches = stretches
        self._groups: list[_Group] | None = None

    def mix(self, call: CallLayer, hidden: Tensor) -> Any:
        if self._groups is None:
            self._groups = [
                _Group.of(self._pool, list(rows), hidden.device)
                for _, rows in groupby(self._stretches, key=lambda stretch: stretch.count)
            ]
        parts, at = [], 0
        for group in self._groups:
            rows = hidden[0, at : (at := at + group.tokens)].unflatten(0, (-1, group.length))
            parts.append(call(rows, group))
        return in_a_row(lambda some: torch.cat([one.flatten(0, 1) for one in some]).unsqueeze(0), parts)

    def keep(self) -> None:
        """Write all new states into the pool."""
        for group in self._groups or ():
            group.keep()
        for stretch in self._stretches:
            self._pool.reach(stretch.state_slot, stretch.end)


@dataclass(slots=True)
class _Group:
    """Sequences with `length` new tokens each, behind the cache interface of `transformers`. Layers may write to its
    tensors, which are copies of the pool's."""

    pool: StatePool
    length: int
    state_slots: Tensor
    """Places of the sequences in the pool, [B] int64."""
    fresh: Tensor
    """Whether each sequence has no stored state yet, [B] bool."""
    begins: bool
    """Whether no sequence of the group has earlier tokens."""
    states: dict[StateKey, Tensor] = field(default_factory=dict)

    @classmethod
    def of(cls, pool: StatePool, rows: Seq[TokenSpan], device: torch.device) -> _Group:
        state_slots = torch.tensor([row.state_slot for row in rows], device=device)
        fresh = [row.start == 0 for row in rows]
        return cls(pool, rows[0].count, state_slots, torch.tensor(fresh, device=device), all(fresh))

    @property
    def tokens(self) -> int:
        return len(self.state_slots) * self.length

    def keep(self) -> None:
        for key, states in self.states.items():
            self.pool.write(key, self.state_slots, states)

    def _state(self, layer: int, kind: Literal["conv", "recurrent"], index: int) -> Tensor | None:
        key = StateKey(layer, kind, index)
        if key not in self.states and key in self.pool:
            self.states[key] = self.pool.read(key, self.state_slots, self.fresh)
        return self.states.get(key)

    # What layers ask a cache; names and arguments are those of `transformers.Cache`.

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        return self._state(layer_idx, "conv", state_idx)

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> Tensor | None:
        return self._state(layer_idx, "recurrent", state_idx)

    def update_conv_state(self, conv_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        """Return the stored and the new inputs [B, d, kept + T], and store the last `kept` of them."""
        kept = self._state(layer_idx, "conv", state_idx)
        assert kept is not None, "a convolution that the trial at load did not see"
        full = torch.cat([kept, conv_states], -1)
        kept.copy_(full[..., -kept.shape[-1] :])
        return full

    def update_recurrent_state(self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        kept = self._state(layer_idx, "recurrent", state_idx)
        assert kept is not None, "a state that the trial at load did not see"
        return kept.copy_(recurrent_states)

    def is_recording_past(self, layer_idx: int) -> bool:
        return False

    def has_previous_state(self, layer_idx: int | None = None, state_idx: int | None = None) -> bool:
        return True


class StateShapeProbe:
    """A step that stores nothing and records the shape of the state each layer would store."""

    begins = True

    def __init__(self) -> None:
        self.shapes: dict[StateKey, StateShape] = {}

    def mix(self, call: CallLayer, hidden: Tensor) -> Any:
        return call(hidden, self)

    def get_conv_state(self, layer_idx: int, state_idx: int = 0) -> None:
        return None

    def get_recurrent_state(self, layer_idx: int, state_idx: int = 0) -> None:
        return None

    def update_conv_state(
        self, conv_states: Tensor, layer_idx: int, state_idx: int = 0, conv_kernel_size: int | None = None, **_: Any
    ) -> Tensor:
        width = conv_states.shape[-1] if conv_kernel_size is None else conv_kernel_size
        self._note(StateKey(layer_idx, "conv", state_idx), (*conv_states.shape[1:-1], width), conv_states.dtype)
        return conv_states

    def update_recurrent_state(self, recurrent_states: Tensor, layer_idx: int, state_idx: int = 0, **_: Any) -> Tensor:
        shape = tuple(recurrent_states.shape[1:])
        self._note(StateKey(layer_idx, "recurrent", state_idx), shape, recurrent_states.dtype)
        return recurrent_states

    def is_recording_past(self, layer_idx: int) -> bool:
        return False

    def has_previous_state(self, layer_idx: int | None = None, state_idx: int | None = None) -> bool:
        return False

    def _note(self, key: StateKey, shape: tuple[int, ...], dtype: torch.dtype) -> None:
        self.shapes[key] = StateShape(key, shape, dtype)
