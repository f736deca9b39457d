"""Batch LoRA adapters that each request chooses: low-rank products beside the layers of one model.

A step mixes tokens of the base model and of any number of adapters. A layer computes all of them with its own weight,
whatever form that is kept in; then each adapter adds its product to its own rows (Hu et al., "LoRA", 2021; batched as
in Chen et al., "Punica", 2023). The compiled forward pass does the same in `engine.cpu.kernels.lowrank`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Sequence as Seq
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sluicegate.engine.checkpoints.lora import LowRank, layer_widths
from sluicegate.engine.cpu import FactorTable

I64 = npt.NDArray[np.int64]


class AdapterUser(Protocol):
    """A generation that uses an adapter."""

    @property
    def is_over(self) -> bool: ...
    @property
    def has_begun(self) -> bool: ...
    def cancel(self) -> None: ...


@dataclass(slots=True, eq=False)
class Adapter:
    """A `ServedModel`: the base model's weights, with low-rank factors beside some layers. Immutable except for
    `users`."""

    name: str
    version: str
    """The base model's, and a digest over the adapter's files: prefixes and answers of two adapters never meet."""
    label: str | None
    """The operator's own word for this version."""
    base: str
    """Name of the model that it is an adapter of."""
    path: str
    """Where it was read from: a folder, or a name on the hub."""
    context_length: int
    vocab_size: int
    eos_token_ids: tuple[int, ...]
    tokenizer: Any
    default_temperature: float
    defaults: Mapping[str, float]
    notes: tuple[str, ...]
    factors: Mapping[str, LowRank] = field(repr=False)
    """By layer, in the model's dtype and on its device."""
    table: FactorTable | None = field(repr=False)
    """For the compiled forward pass; None = it cannot compute this adapter, and the model's own code does."""
    users: WeakSet[AdapterUser] = field(default_factory=WeakSet, repr=False)
    remote: bool = False


Span = tuple[int, int, Adapter]
"""(first token, tokens, adapter) of a flattened step."""


class LoraBatch:
    """Hooks on the layers of `module` that add adapters' products in this thread's forward pass. No hooks without
    adapters."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._hooked: set[str] = set()
        self._now = threading.local()

    @contextmanager
    def adding(self, spans: Seq[Span], wanted: I64) -> Iterator[None]:
        """Compute the tokens in `spans` with their adapters, in forward passes of this thread within this context.
        `wanted` int64 [R]: the tokens whose logits are returned."""
        if not spans:
            yield
            return
        for adapter in {id(span[2]): span[2] for span in spans}.values():
            self._hook(adapter)
        self._now.rows = _Rows.of(spans, wanted, self._module.device)
        try:
            yield
        finally:
            self._now.rows = None

    def _hook(self, adapter: Adapter) -> None:
        for name in set(adapter.factors) - self._hooked:
            layer = self._module.get_submodule(name)
            layer.register_forward_hook(self._adder(name, layer is self._module.get_output_embeddings()))
            self._hooked.add(name)

    def _adder(self, name: str, is_head: bool) -> Callable[[Any, Any, Tensor], None]:
        def add(_: Any, given: tuple[Tensor, ...], out: Tensor) -> None:
            rows: _Rows | None = getattr(self._now, "rows", None)
            if rows is not None:
                rows.add(name, given[0], out, is_head)

        return add


@dataclass(frozen=True, slots=True)
class _Rows:
    """Per adapter: the indices [n] of its tokens in the step, and [m] among those whose logits are wanted, int64 on the
    device."""

    found: list[tuple[Adapter, Tensor, Tensor]]

    @classmethod
    def of(cls, spans: Seq[Span], wanted: I64, device: torch.device) -> _Rows:
        """Find the rows of each adapter; `wanted` int64 [R]."""
        tokens: dict[int, list[I64]] = {}
        adapters = {id(adapter): adapter for _, _, adapter in spans}
        for first, count, adapter in spans:
            tokens.setdefault(id(adapter), []).append(np.arange(first, first + count))
        found = []
        for key, adapter in adapters.items():
            places = np.concatenate(tokens[key])
            heads = np.flatnonzero(np.isin(wanted, places))
            found.append((adapter, torch.from_numpy(places).to(device), torch.from_numpy(heads).to(device)))
        return cls(found)

    def add(self, name: str, given: Tensor, out: Tensor, is_head: bool) -> None:
        """Add to `out` [1, T, o], in place, the adapters' products with `given` [1, T, i] (ids [1, T] of an
        embedding)."""
        flat = out.view(-1, out.shape[-1])
        for adapter, tokens, heads in self.found:
            pair, places = adapter.factors.get(name), heads if is_head else tokens
            if pair is not None:
                x = given.reshape(len(flat), -1).index_select(0, places)
                inner = x @ pair.down.T if given.is_floating_point() else pair.down.T[x[:, 0]]
                flat.index_add_(0, places, (inner @ pair.up.T).to(flat))


@contextmanager
def finding_rowwise_layers(module: Any, tokens: int) -> Iterator[set[str]]:
    """Yield a set, filled when the context ends, of the layers called exactly once with one row per token. `tokens`:
    those of the pass. Only these layers can have an adapter."""
    calls: dict[str, list[int]] = {}
    found: set[str] = set()
    hooks = []
    for name, layer in module.named_modules():
        if layer_widths(layer) is not None:
            note = calls.setdefault(name, []).append
            hooks.append(layer.register_forward_hook(_counter(note)))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()
    found |= {name for name, counts in calls.items() if counts == [tokens]}


def _counter(note: Callable[[int], None]) -> Callable[[Any, Any, Any], None]:
    """Record the rows of a layer's output; a layer that returns several tensors (a router) is left out."""
    return lambda _module, _given, out: note(out.shape[:-1].numel() if isinstance(out, Tensor) else 0)
