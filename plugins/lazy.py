"""Import a package's public names on first use: importing the package itself loads none of its modules."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazily(package: str, where: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `package` (PEP 562): `where` maps each public name to the module below that has it.

    A name is looked up once and kept in the package. Raises `AttributeError` for names that `where` lacks."""

    def found(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return found
