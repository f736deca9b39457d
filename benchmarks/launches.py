"""Count the kernels that a decode step launches on a device, without one: torch's operations, and Triton's kernels.

Counted is the work that a graph captures. An operation that gives a view, or memory with nothing in it, launches
nothing; every other one is taken for one kernel, though a library may split a product into two. What a layer launches
is the difference between models of one and of two layers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from triton.runtime.interpreter import GridExecutor
from triton.runtime.jit import JITFunction

from benchmarks.device_models import make_model
from sluicegate.engine import LoadedModel
from sluicegate.engine.attention.paged import TokenSpan
from sluicegate.engine.batching.runner import ModelRunner, RunnerOptions
from sluicegate.engine.batching.step_inputs import StepInputs
from sluicegate.engine.settings import WeightsKind

_EMPTY = {"aten::empty", "aten::new_empty", "aten::empty_like", "aten::empty_strided", "aten::new_empty_strided"}
_VIEWS = {"aten::_unsafe_view", "aten::_reshape_alias", "aten::lift_fresh", "aten::set_"}
_BLOCK, _CONTEXT = 16, 64


@dataclass(frozen=True, slots=True)
class StepLaunches:
    """Launches by operation: those of one layer, and those of a step outside its layers."""

    layer: Counter[str]
    outside: Counter[str]

    def of(self, layers: int) -> int:
        """Return the launches of a step of a model with so many layers."""
        return layers * self.layer.total() + self.outside.total()


class _Operations(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes operations that launch a kernel, those that others are made of in place of the others."""

    def __init__(self, found: Counter[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        with self:
            made = func.decompose(*args, **given)
        if made is not NotImplemented:
            return made
        if _launches(func):
            self._found[func._schema.name] += 1
        return func(*args, **given)


@cache
def _launches(func: Any) -> bool:
    """Return whether the operation does more than name memory."""
    if not func._schema.name.startswith("aten::") or func._schema.name in _EMPTY | _VIEWS:
        return False
    given_back = [out.alias_info for out in func._schema.returns]
    return not given_back or any(alias is None or alias.is_write for alias in given_back)


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Yield what is launched while this is open, by name. Triton's interpreter works with torch's operations too: those
    are not counted."""
    found: Counter[str] = Counter()
    with _noting(GridExecutor, "__call__", found), _noting(JITFunction, "run", found), _Operations(found):
        yield found


@contextmanager
def _noting(kind: Any, method: str, found: Counter[str]) -> Iterator[None]:
    own = getattr(kind, method)

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        found[f"triton::{self.fn.__name__}"] += 1
        with torch.utils._python_dispatch._disable_current_modes():
            return own(self, *args, **kwargs)

    setattr(kind, method, run)
    try:
        yield
    finally:
        setattr(kind, method, own)


def count_step(
    family: str, device: torch.device, dtype: torch.dtype, *, weights: WeightsKind = "full", batch: int = 2
) -> StepLaunches:
    """Count the launches of a decode step of `batch` sequences of a small model of that shape of `SHAPES`."""
    one, two = (_count(_small(family, device, dtype, layers, weights), batch) for layers in (1, 2))
    layer = two - one
    return StepLaunches(layer, one - layer)


def _small(family: str, device: torch.device, dtype: torch.dtype, layers: int, weights: WeightsKind) -> LoadedModel:
    model = make_model(family, device, dtype, _CONTEXT, layers=layers)
    if weights != "full":
        from sluicegate.engine.cuda.small_layers import shrink

        shrink(model.module, weights)
    return model


@torch.inference_mode()
def _count(model: LoadedModel, batch: int) -> Counter[str]:
    blocks = _CONTEXT // _BLOCK
    runner = ModelRunner(model, batch * blocks, _BLOCK, RunnerOptions(attention="triton"))
    runner.capture(_again, batch)
    inputs = _single_tokens(batch, blocks)
    runner.follow(inputs)  # captures
    with counting() as found:
        runner.follow(inputs)
    return found


def _again(work: Callable[[], None]) -> Callable[[], None]:
    """Stand in for a capture: a replay does the work itself, with every launch that the graph would hold."""
    work()
    return work


def _single_tokens(batch: int, blocks: int) -> StepInputs:
    """Make the inputs of a step with one token each of sequences that have `_BLOCK` + 2 others."""
    position = _BLOCK + 2
    tables = np.arange(batch * blocks).reshape(batch, blocks)
    slots = tables[:, position // _BLOCK] * _BLOCK + position % _BLOCK
    stretches = [TokenSpan(position, 1, table) for table in tables]
    return StepInputs(np.arange(5, 5 + batch), np.full(batch, position), slots, np.arange(batch), stretches)


def table(found: StepLaunches) -> str:
    """Return a Markdown table: operation, launches of a layer, launches of a step outside its layers."""
    lines = ["| operation | a layer | outside layers |", "|---|--:|--:|"]
    for name in sorted(found.layer | found.outside, key=lambda name: (-found.layer[name], -found.outside[name], name)):
        lines.append(f"| `{name}` | {found.layer[name]} | {found.outside[name]} |")
    return "\n".join([*lines, f"| **all** | **{found.layer.total()}** | **{found.outside.total()}** |"])
