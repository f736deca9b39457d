"""Say how this process compiles its loops. Nothing here imports numba, which takes half a second."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

CompileKind = Literal["background", "first", "never"]
"""Beside a process that serves already; before it does; or not at all."""
Types = tuple[Any, ...]
"""numba's types of the arguments of a kernel."""


class Compilable(Protocol):
    """A `sluicegate.plugins.compiled.kernels.Kernel`."""

    @property
    def origin(self) -> tuple[str, str, tuple[Any, ...] | None]:
        """Return module, name, and the arguments of the function that makes it, if it is made by one."""

    @property
    def declared(self) -> tuple[Types, ...]:
        """Return the types that it is called with."""

    def key(self, types: Types) -> str | None:
        """Return the name that its code for these types is kept under; None where it cannot be kept."""

    def load(self, types: Types | None = None) -> bool:
        """Load what is kept for these types, or for all that were declared; False where something is not there."""

    def build(self) -> None:
        """Load or compile it, here, for all types that were declared."""

    def take(self, types: Types, payload: bytes) -> bool:
        """Use code that another process compiled; False where it cannot be used."""


class KernelBuilder(Protocol):
    """Whoever compiles beside this process."""

    @property
    def trouble(self) -> str | None:
        """Return a sentence for operators where something could not be compiled."""

    def stats(self) -> Mapping[str, float]:
        """Return numbers for `/metrics`."""

    def want(self, kernel: Compilable, types: Types) -> None:
        """Have a kernel compiled for arguments of these types, some time."""

    def want_all(self, kernels: Iterable[Compilable], then: Callable[[Mapping[str, str]], None]) -> None:
        """Have kernels compiled for the types they declare, then call `then`, on another thread, with what failed."""

    def close(self) -> None:
        """End; nothing that is still wanted will come."""


@dataclass(slots=True)
class Beside:
    """How this process compiles, which is one thing for all that live in it, as its compiled code is."""

    builder: KernelBuilder | None = None
    """None = kernels are compiled where they are called."""


BESIDE = Beside()
