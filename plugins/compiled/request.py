"""Messages between the serving process and the compiler process, as frames on pipes."""

from __future__ import annotations

import importlib
import pickle
import struct
from dataclasses import dataclass
from typing import Any, BinaryIO

from sluicegate.plugins.compiled.compile_mode import Compilable, Types
from sluicegate.plugins.compiled.kernels import Kernel

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class KernelRequest:
    """A request to compile a kernel, found by module and name, for these argument types."""

    module: str
    name: str
    made_by: tuple[Any, ...] | None
    types: Types

    @classmethod
    def of(cls, kernel: Compilable, types: Types) -> KernelRequest:
        module, name, made_by = kernel.origin
        return cls(module, name, made_by, types)

    def kernel(self) -> Kernel:
        found = getattr(importlib.import_module(self.module), self.name)
        kernel = found if self.made_by is None else found(*self.made_by)
        if not isinstance(kernel, Kernel):
            raise TypeError(f"{self.module}.{self.name} is no kernel")
        return kernel

    def __str__(self) -> str:
        return f"{self.module.removeprefix('sluicegate.')}.{self.name}"


@dataclass(frozen=True, slots=True)
class KernelReply:
    """The result for the request of this number: the code and its cache key, or the failure."""

    number: int
    key: str | None = None
    payload: bytes = b""
    seconds: float = 0.0
    failure: str | None = None


def send(pipe: BinaryIO, message: Any) -> None:
    data = pickle.dumps(message)
    pipe.write(_LENGTH.pack(len(data)) + data)
    pipe.flush()


def receive(pipe: BinaryIO) -> Any:
    """Return the next message; None at the end."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = pipe.read(length)
    return pickle.loads(data) if len(data) == length else None
