"""Simulate a CUDA device, so that transfers between it and the host can be counted without one.

Tensors "on" it lie in the host's memory and say that their device is `cuda:0`; inside `pretended_device` whatever asks
for that device gets such tensors. As on a real one, an operation whose tensors lie on both sides is an error, and so is
`numpy()` of a tensor there. Each crossing is noted with the line of the engine that asked for it:

    to device   a copy from pinned memory, which nobody waits for
    pageable    a copy from other memory of the host, which waits until it has been read
    to host     a copy back, which waits for all work before it
    wait        an operation whose size the device must tell first (`nonzero`, a boolean index), or a plain wait
    event       a wait for one copy to the device, begun a step ago: mostly none

What cannot be seen here is what a kernel or a library does of its own.
"""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

CUDA = torch.device("cuda", 0)
Crossings = Counter[tuple[str, str]]
"""(kind, place in the engine) -> how often."""

_TO_HOST = {"tolist", "item", "cpu", "__int__", "__float__", "__bool__", "__index__", "__contains__", "equal"}
_TELLS_SIZE = {"nonzero", "argwhere", "masked_select", "unique", "unique_consecutive"}
_INDEXES = {"__getitem__", "__setitem__", "index_put_", "index_put", "index_fill_"}
_MAKES = {"tensor", "as_tensor", "new_tensor"}


class PretendedTensor(Tensor):
    """A tensor in the host's memory that says it is on a CUDA device."""

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return CUDA


class _Pretending(TorchFunctionMode):
    def __init__(self, crossings: Crossings) -> None:
        super().__init__()
        self.crossings = crossings
        self._pinned: dict[int, Tensor] = {}

    def note(self, kind: str) -> None:
        self.crossings[kind, _place()] += 1

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, given = getattr(func, "__name__", ""), dict(kwargs or {})
        own = getattr(self, f"_{name}", None)
        if own is not None:
            return own(func, args, given)
        there = any(isinstance(one, PretendedTensor) for one in _tensors((args, given)))
        if there and name in _TO_HOST:
            self.note("to host")
            return func(*(_plain(one) for one in args), **given)
        if there and name in _TELLS_SIZE:
            self.note("wait")
        elif there and name in _INDEXES:
            self._note_index(args)
            args = tuple(_moved(one) for one in args)
        elif there:
            _refuse_mixture(name, args, given)
        return self._made(func, name, args, given)

    def _made(self, func: Any, name: str, args: Any, given: dict[str, Any]) -> Any:
        """Call a function that may ask for memory on the device, or for pinned memory."""
        wanted = given.get("device")
        is_pinned = bool(given.pop("pin_memory", False))
        if wanted is None or torch.device(wanted).type != "cuda":
            made = func(*args, **given)
            return self._pin(made) if is_pinned else made
        if name in _MAKES:
            self.note("pageable")
        return func(*args, **{**given, "device": "cpu"}).as_subclass(PretendedTensor)

    def _numpy(self, func: Any, args: Any, given: Any) -> Any:
        if isinstance(args[0], PretendedTensor):
            raise TypeError("can't convert cuda:0 device type tensor to numpy")
        return func(*args, **given)

    def _pin_memory(self, func: Any, args: Any, given: Any) -> Any:
        assert not isinstance(args[0], PretendedTensor), "only memory of the host can be pinned"
        return self._pin(args[0].clone())

    def _is_pinned(self, func: Any, args: Any, given: Any) -> bool:
        return not isinstance(args[0], PretendedTensor) and _memory(args[0]) in self._pinned

    def _pin(self, made: Tensor) -> Tensor:
        self._pinned[_memory(made)] = made  # held, so that no other memory gets its address
        return made

    def _copy_(self, func: Any, args: Any, given: Any) -> Any:
        waits = not given.pop("non_blocking", False)
        self._note_copy(args[1], isinstance(args[0], PretendedTensor), waits)
        return _as(func(_plain(args[0]), _plain(args[1])), type(args[0]))

    def _to(self, func: Any, args: Any, given: Any) -> Any:
        """Do `x.to(...)`. An argument that names a device, or is a tensor, says where to."""
        x, waits = args[0], not given.pop("non_blocking", False)
        named = [one for one in (*args[1:], *given.values()) if isinstance(one, torch.device | str | Tensor)]
        goes = any(_is_there(one) for one in named) if named else isinstance(x, PretendedTensor)
        self._note_copy(x, goes, waits)
        rest = [_plain(one) if isinstance(one, Tensor) else one for one in args[1:]]
        rest = ["cpu" if isinstance(one, torch.device | str) else one for one in rest]
        given = {key: "cpu" if key == "device" else one for key, one in given.items()}
        made = func(_plain(x), *rest, **given)
        if isinstance(x, PretendedTensor) != goes and _memory(made) == _memory(x):
            made = made.clone()
        return _as(made, PretendedTensor if goes else Tensor)

    def _note_copy(self, source: Any, goes: bool, waits: bool) -> None:
        was = isinstance(source, PretendedTensor)
        if was == goes or not isinstance(source, Tensor):
            return
        pinned = _memory(source) in self._pinned and not waits
        self.note("to host" if was else "to device" if pinned else "pageable")

    def _note_index(self, args: Any) -> None:
        """Note what an index costs. Lists, and tensors of the host, are copied to the device first; a boolean tensor
        tells how many it names."""
        parts = args[1] if isinstance(args[1], tuple) else (args[1],)
        for part in (*parts, *args[2:]):
            if isinstance(part, list) or (isinstance(part, Tensor) and _is_of_host(part)):
                self.note("pageable")
        if any(isinstance(part, Tensor) and part.dtype == torch.bool for part in parts):
            self.note("wait")


class _Event:
    """Stands in for `torch.cuda.Event`."""

    mode: _Pretending

    def record(self, *_: Any) -> None:
        return

    def synchronize(self) -> None:
        self.mode.note("event")


@contextmanager
def pretended_device() -> Iterator[Crossings]:
    """Yield what crosses on this thread while this is open. Triton's kernels, if it is there, are interpreted."""
    found: Crossings = Counter()
    mode = _Pretending(found)
    event = type("_NotedEvent", (_Event,), {"mode": mode})
    with ExitStack() as stack:
        stack.enter_context(patch.object(torch.cuda, "Event", event))
        stack.enter_context(patch.object(torch.cuda, "device", lambda _: nullcontext()))
        stack.enter_context(patch.object(torch.cuda, "_lazy_init", lambda: None))
        stack.enter_context(_interpreted())
        stack.enter_context(mode)
        yield found


def moved_to_device(module: nn.Module) -> None:
    """Put the parameters and buffers of `module` on the device."""
    with torch.no_grad():
        for part in module.modules():
            for name, one in part._parameters.items():
                if one is not None:
                    part._parameters[name] = nn.Parameter(one.detach().as_subclass(PretendedTensor), False)
            for name, held in part._buffers.items():
                part._buffers[name] = None if held is None else held.as_subclass(PretendedTensor)


@contextmanager
def _interpreted() -> Iterator[None]:
    """Hand kernels the memory itself."""
    try:
        from triton.runtime.interpreter import GridExecutor
    except ImportError:
        yield
        return
    own: Callable[..., Any] = GridExecutor.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_mixture(self.fn.__name__, args, kwargs)
        with torch._C.DisableTorchFunction():
            return own(self, *(_plain(one) for one in args), **{key: _plain(one) for key, one in kwargs.items()})

    with patch.object(GridExecutor, "__call__", call):
        yield


def _place() -> str:
    """Name the innermost line of the engine that is being run."""
    for frame, line in traceback.walk_stack(sys._getframe(2)):
        module = frame.f_globals.get("__name__", "")
        if module.startswith("sluicegate.engine."):
            return f"{module.removeprefix('sluicegate.engine.')}.{frame.f_code.co_name}:{line}"
    return "elsewhere"


def _refuse_mixture(name: str, args: Any, kwargs: Any) -> None:
    found = _tensors((args, kwargs))
    if any(isinstance(one, PretendedTensor) for one in found) and any(_is_of_host(one) for one in found):
        raise RuntimeError(f"{name}: expected all tensors to be on the same device, found cuda:0 and cpu")


def _tensors(of: Any) -> list[Tensor]:
    if isinstance(of, Tensor):
        return [of]
    if isinstance(of, dict):
        of = of.values()
    elif not isinstance(of, list | tuple):
        return []
    return [one for part in of for one in _tensors(part)]


def _is_of_host(one: Tensor) -> bool:
    """Return whether `one` is an array of the host. Numbers without a dimension are handed over by value."""
    return not isinstance(one, PretendedTensor) and one.ndim > 0


def _is_there(one: Any) -> bool:
    return isinstance(one, PretendedTensor) or (not isinstance(one, Tensor) and str(one).startswith("cuda"))


def _plain(one: Any) -> Any:
    return one.as_subclass(Tensor) if isinstance(one, PretendedTensor) else one


def _moved(one: Any) -> Any:
    """Put what an index is made of on the side of what it indexes."""
    if isinstance(one, tuple):
        return tuple(_moved(part) for part in one)
    return _as(one, PretendedTensor) if isinstance(one, Tensor) else one


def _as(one: Tensor, kind: type[Tensor]) -> Tensor:
    return one.as_subclass(kind)


def _memory(one: Tensor) -> int:
    return one.untyped_storage().data_ptr()
