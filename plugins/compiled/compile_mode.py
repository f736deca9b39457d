"""Select how this process compiles its kernels. Does not import numba, which takes half a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

CompileKind = Literal["background", "first", "never"]
"""`background`: in another process while this one serves; `first`: in this process before it serves; `never`."""
Types = tuple[Any, ...]
"""numba types of a kernel's arguments."""


class Compilable(Protocol):
    """A `sluicegate.plugins.compiled.kernels.Kernel`."""

    @property
    def origin(self) -> tuple[str, str, tuple[Any, ...] | None]:
        """Return the kernel's module and name; for a kernel made by a factory function, that function's name and
        arguments."""

    @property
    def declared(self) -> tuple[Types, ...]:
        """Return the argument types that the kernel was declared with, one tuple per signature."""

    def key(self, types: Types) -> str | None:
        """Return the cache key of the code for these argument types; None where the code cannot be cached."""

    def load(self, types: Types | None = None) -> bool:
        """Load cached code for these types (None: for all declared types). Return False where some of it is not
        cached."""

    def build(self) -> None:
        """Load or compile the code for all declared types, in this process."""

    def take(self, types: Types, payload: bytes) -> bool:
        """Load code that another process compiled, `payload`; return False where it cannot be used."""


class KernelBuilder(Protocol):
    """Compiles kernels outside this process."""

    @property
    def trouble(self) -> str | None:
        """Return a sentence for operators that names a kernel which failed to compile; None where none did."""

    def stats(self) -> Mapping[str, float]:
        """Return gauges and counters for `/metrics`, by name."""

    def request(self, kernel: Compilable, types: Types) -> None:
        """Request code for a kernel with these argument types; returns at once."""

    def request_all(self, kernels: Iterable[Compilable], then: Callable[[Mapping[str, str]], None]) -> None:
        """Request code for all declared types of `kernels`. Calls `then` once, on another thread, with the failures by
        kernel name."""

    def close(self) -> None:
        """Stop; outstanding requests are dropped."""


@dataclass(slots=True)
class CompileMode:
    """The compile mode of this process. Process-wide, because compiled code is shared by everything in the process."""

    builder: KernelBuilder | None = None
    """None = kernels are compiled when they are first called."""


COMPILE_MODE = CompileMode()
