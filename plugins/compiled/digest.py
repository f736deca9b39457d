"""Digest a compiled function: its own code, and that of everything it reaches by name.

Line numbers, comments, docstrings, the file's path and the rest of its module are left out, so cached code stays valid
across every change that cannot affect it.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.dispatcher import Dispatcher

_VERSIONED = frozenset(("numba", "numpy", "llvmlite", "torch"))
"""Objects of these packages are digested by name alone: the packages' versions are part of every key."""
_UNMEANT = frozenset(("__module__", "__doc__", "__firstlineno__"))
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


def digest_of(function: Any) -> str:
    """Return a digest of a kernel and of all it reaches. Raises `TypeError` where it reaches an object that cannot be
    digested."""
    found = blake2b(digest_size=20)
    for part in ContentWalk().parts(function):
        found.update(part.encode() + b"\0")
    return found.hexdigest()


class ContentWalk:
    """Spells out each function once; where it is reached again, its number stands for it."""

    def __init__(self) -> None:
        self._seen: dict[int, int] = {}
        self._kept: list[Any] = []

    def parts(self, value: Any) -> Iterator[str]:
        if isinstance(value, enum.Enum):
            yield f"{type(value).__qualname__}.{value.name}={value.value!r}"
        elif isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif isinstance(value, np.ndarray | np.generic):
            yield f"array {value.dtype} {value.shape} {value.tobytes().hex()}"
        elif isinstance(value, tuple | list):
            yield f"{type(value).__name__} of {len(value)}"
            yield from self._each(value)
        elif isinstance(value, dict):
            yield f"dict of {len(value)}"
            yield from self._each(part for key in sorted(value, key=repr) for part in (key, value[key]))
        elif isinstance(value, frozenset | set):
            yield f"set {sorted(map(repr, value))}"
        elif isinstance(value, ModuleType) and _is_named(value.__name__):
            yield f"module {value.__name__}"
        else:
            yield from self._object(value)

    def _each(self, values: Iterable[Any]) -> Iterator[str]:
        for value in values:
            yield from self.parts(value)

    def _object(self, value: Any) -> Iterator[str]:
        if id(value) in self._seen:
            yield f"again {self._seen[id(value)]}"
            return
        self._seen[id(value)] = len(self._seen)
        self._kept.append(value)
        if isinstance(value, Dispatcher):
            yield "kernel"
            yield from self.parts(dict(value.targetoptions))  # sets among them, whose order is another in each process
            yield from self.parts(value.py_func)
        elif isinstance(value, type):
            yield from self._class(value)
        elif (inner := getattr(value, "_defn", None) or getattr(value, "__wrapped__", None)) is not None:
            yield type(value).__name__  # an intrinsic, or a function that remembers its answers
            yield from self.parts(inner)
        elif isinstance(value, FunctionType) and not _is_named(value.__module__):
            yield from self._function(value)
        elif isinstance(value, BuiltinFunctionType | FunctionType):
            yield f"function {value.__module__}.{value.__qualname__}"
        elif _is_named(type(value).__module__):
            yield f"{type(value).__module__}.{type(value).__qualname__} {_spelled(value)}"
        else:
            raise TypeError(f"cannot tell what {value!r} contributes to a compiled function")

    def _class(self, kind: type) -> Iterator[str]:
        yield f"class {kind.__module__}.{kind.__qualname__}"
        if not _is_named(kind.__module__):
            for name, member in sorted(vars(kind).items()):
                if isinstance(member, (FunctionType, *_PLAIN)) and name not in _UNMEANT:
                    yield name
                    yield from self.parts(member)
            yield from self._each(kind.__bases__)

    def _function(self, function: FunctionType) -> Iterator[str]:
        yield f"def {function.__qualname__}"
        yield from self._code(function.__code__, function.__doc__)
        yield from self.parts(function.__defaults__)
        yield from self.parts(function.__kwdefaults__)
        for cell in function.__closure__ or ():
            yield from self.parts(cell.cell_contents)
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                yield f"global {name}"
                yield from self.parts(function.__globals__[name])

    def _code(self, code: CodeType, doc: str | None = None) -> Iterator[str]:
        yield f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_cellvars} {code.co_freevars}"
        for index, constant in enumerate(code.co_consts):
            if isinstance(constant, CodeType):
                yield from self._code(constant)
            elif not (index == 0 and doc is not None and constant == doc):
                yield from self.parts(constant)


def _names(code: CodeType) -> set[str]:
    """Return the names that a function and its inner functions look up."""
    inner = [_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*inner)


def _is_named(module: str | None) -> bool:
    """Return whether a module belongs to a versioned library or the standard library, so that its name stands for its
    content."""
    root = (module or "").partition(".")[0]
    return root in _VERSIONED or root in sys.stdlib_module_names


def _spelled(value: Any) -> str:
    """Return the text of a library's type or constant. Raises `TypeError` where that contains a memory address."""
    text = str(value)
    if " at 0x" in text:
        raise TypeError(f"cannot tell what {text} contributes to a compiled function")
    return text
