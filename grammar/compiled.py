"""Whether the grammar runs compiled: `setup.py` makes such wheels of the modules in `compiled_modules.txt`."""

from __future__ import annotations

import json
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path

LIST = Path(__file__).with_name("compiled_modules.txt")
IN_PLACE = LIST.with_name("compiled_in_place.json")
"""Written where modules were compiled beside sources that may be edited: size and time of change of each source."""


@cache
def is_compiled() -> bool:
    """Return whether the listed modules are machine code here. A wheel has all of them or none: the first tells."""
    first = names()[0]
    found = find_spec(f"sluicegate.{first.removesuffix('.py').replace('/', '.')}")
    return found is not None and str(found.origin).endswith(tuple(EXTENSION_SUFFIXES))


def names() -> list[str]:
    """Return the paths of the listed modules, from the folder that holds `grammar`."""
    return LIST.read_text("utf-8").split()


def stamps() -> dict[str, list[int]]:
    """Return size in bytes and time of change in nanoseconds of each listed source."""
    found = {name: LIST.parents[1].joinpath(name).stat() for name in names()}
    return {name: [stat.st_size, stat.st_mtime_ns] for name, stat in found.items()}


def refuse_stale() -> None:
    """Raise ImportError where a source has changed since it was compiled in place: the machine code would run in its
    stead, and say nothing."""
    if not IN_PLACE.exists():
        return
    compiled, now = json.loads(IN_PLACE.read_text("utf-8")), stamps()
    if stale := sorted(name for name in compiled.keys() | now.keys() if compiled.get(name) != now.get(name)):
        raise ImportError(
            f"{stale[0]} has changed since it was compiled, as have {len(stale) - 1} other modules: `make compiled` "
            "compiles them again, `make interpreted` removes what is compiled"
        )
