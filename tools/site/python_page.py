"""The page of the Python API: what each package lets through its door, told by its docstrings."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator

HEAD = """# Python

What is meant to be used by others: the names that each package lists in `__all__`. `sluicegate.plugins` is the contract
of plug-ins and changes only with its version; the others are libraries, which a program may use without a gateway.
"""
DOORS = ("plugins", "grammar", "engine", "safety", "cache", "gateway")


def page() -> str:
    return "\n".join([HEAD, *(line for name in DOORS for line in _door(name))])


def _door(name: str) -> Iterator[str]:
    package = importlib.import_module(f"sluicegate.{name}")
    yield f"## sluicegate.{name}\n\n{package.__doc__}\n"
    for public in package.__all__:
        made = getattr(package, public)
        if inspect.isclass(made) or inspect.isfunction(
            made
        ):  # constants and names of types are told where they are used
            yield f"::: {made.__module__}.{made.__qualname__}\n"
