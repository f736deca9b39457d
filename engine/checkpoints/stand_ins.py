"""Stand in for tensors of experts that are not read yet, and record how `transformers` rearranges them.

Checkpoints store experts one by one, models as one tensor per layer. `transformers` stacks, joins and transposes
tensors for that; a stand-in records these operations, to apply them to one expert at a time when its weights are
needed. Any other operation reads the tensors first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sluicegate.engine.checkpoints.stored_tensors import LazyTensor

OnMade = Callable[["ExpertStandIn", Sequence["ExpertStandIn"]], None]
"""Called with a stand-in that was made of others."""
_FACTS = frozenset(
    (
        "shape", "dtype", "device", "layout", "requires_grad", "is_leaf", "ndim", "is_meta", "is_sparse",
        "is_quantized", "is_cuda", "is_cpu", "is_nested", "itemsize", "nbytes", "size", "dim", "numel",
        "data_ptr", "is_floating_point", "is_complex", "element_size", "stride", "storage_offset",
        "get_device", "__hash__", "__len__", "requires_grad_", "grad", "grad_fn", "is_contiguous",
    )
)  # fmt: skip
"""What says nothing of the numbers."""


class ExpertsTensor(LazyTensor):
    """A lazy tensor composed of others, read one expert at a time."""


class _Stacked(ExpertsTensor):
    """Tensors of equal shape, stacked to [count, ...]."""

    def __init__(self, parts: Sequence[LazyTensor]) -> None:
        super().__init__((len(parts), *parts[0].shape), parts[0].dtype, lambda: torch.stack([p.read() for p in parts]))
        self._parts = parts

    def part(self, index: int) -> Tensor:
        return self._parts[index].read()


class _Joined(ExpertsTensor):
    """Tensors concatenated along a dimension after the first."""

    def __init__(self, parts: Sequence[LazyTensor], dim: int) -> None:
        shape = list(parts[0].shape)
        shape[dim] = sum(part.shape[dim] for part in parts)
        super().__init__(tuple(shape), parts[0].dtype, lambda: torch.cat([part.read() for part in parts], dim))
        self._parts, self._dim = parts, dim

    def part(self, index: int) -> Tensor:
        return torch.cat([part.part(index) for part in self._parts], self._dim - 1)


class _Transposed(ExpertsTensor):
    """A tensor [count, n, k] transposed to [count, k, n]."""

    def __init__(self, kept: LazyTensor) -> None:
        count, n, k = kept.shape
        super().__init__((count, k, n), kept.dtype, lambda: kept.read().transpose(1, 2))
        self._kept = kept

    def part(self, index: int) -> Tensor:
        return self._kept.part(index).T


class ExpertStandIn(Tensor):
    """A torch tensor with the shape of `kept` that uses the memory of one number."""

    kept: LazyTensor
    on_made: OnMade

    @staticmethod
    def of(kept: LazyTensor, dtype: torch.dtype, on_made: OnMade) -> ExpertStandIn:
        made: ExpertStandIn = torch.zeros(1, dtype=dtype).expand(kept.shape).as_subclass(ExpertStandIn)
        made.kept, made.on_made = kept, on_made
        return made

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        made = _rearranged(func, args, given)
        if made is not None:
            return made
        with torch._C.DisableTorchFunctionSubclass():
            if _name(func) in _FACTS:
                return func(*args, **given)
            return func(*_read(args), **_read(given))


def _rearranged(func: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Return a stand-in for the result of `func` if it only rearranges stand-ins, else None."""
    first = args[0] if args else None
    if isinstance(first, ExpertStandIn):
        if func is torch.Tensor.detach or (func is torch.Tensor.to and _keeps(first, args[1:], given)):
            return first
        if func in (torch.Tensor.transpose, torch.transpose) and len(first.kept.shape) == 3 and set(args[1:]) == {1, 2}:
            return _made(_Transposed(first.kept), [first])
        return first if func is torch.Tensor.contiguous else None
    parts = list(first) if isinstance(first, (list, tuple)) else []
    if func not in (torch.stack, torch.cat) or not parts or not all(isinstance(one, ExpertStandIn) for one in parts):
        return None
    dim = int(args[1] if len(args) > 1 else given.get("dim", 0))
    kept = [one.kept for one in parts]
    if func is torch.stack:
        alike = len({one.shape for one in kept}) == 1
        return _made(_Stacked(kept), parts) if dim == 0 and alike else None
    return _made(_Joined(kept, dim), parts) if dim > 0 and len(kept[0].shape) == 3 else None


def _made(kept: LazyTensor, parts: list[ExpertStandIn]) -> ExpertStandIn:
    with torch._C.DisableTorchFunctionSubclass():
        made = ExpertStandIn.of(kept, parts[0].dtype, parts[0].on_made)
    made.on_made(made, parts)
    return made


def _keeps(one: ExpertStandIn, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
    """Return whether `to` with these arguments changes nothing."""
    asked = [*args, *given.values()]
    return all(value in (None, False, one.dtype, torch.device("cpu"), "cpu") for value in asked)


def _read(value: Any) -> Any:
    """Replace stand-ins by tensors with their numbers."""
    if isinstance(value, ExpertStandIn):
        value.on_made(value, [value])
        return value.kept.read().to(value.dtype)
    if isinstance(value, (list, tuple)):
        return type(value)(_read(one) for one in value)
    return {name: _read(one) for name, one in value.items()} if isinstance(value, dict) else value


def _name(func: Any) -> str:
    """Return the name of a function, or of the attribute that a getter reads."""
    owner = getattr(func, "__self__", None)
    return str(getattr(owner, "__name__", "") if func.__name__ == "__get__" else func.__name__)
