"""Whether the grammar runs compiled: `setup.py` makes such wheels of the modules in `compiled_modules.txt`."""

from __future__ import annotations

from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

LIST = Path(__file__).with_name("compiled_modules.txt")


def is_compiled() -> bool:
    """Return whether the listed modules are machine code here. A wheel has all of them or none: the first tells."""
    first = LIST.read_text("utf-8").split()[0]
    found = find_spec(f"sluicegate.{first.removesuffix('.py').replace('/', '.')}")
    return found is not None and str(found.origin).endswith(tuple(EXTENSION_SUFFIXES))
