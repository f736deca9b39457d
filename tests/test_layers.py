"""The layers inside the packages: imports point down, none runs in a circle, no folder is a heap.

`layers/PACKAGE.layers` lists a package's units from the top layer to the ground, one layer a line. A unit is a folder
or a module; a file belongs to the longest unit that its path begins with. Units on one line do not import each other.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gateway", "safety", "grammar", "engine", "cache", "plugins")
MOST_FILES = 16


@cache
def modules() -> dict[str, str]:
    """Dotted name -> path from the root, for every module of the six packages."""
    paths = [path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return {"sluicegate." + ".".join(p.with_suffix("").parts).removesuffix(".__init__"): p.as_posix() for p in paths}


@cache
def imports() -> dict[str, set[str]]:
    """Map each path to the paths that it imports: at its top, in functions, and for type checkers alone."""
    found: dict[str, set[str]] = {}
    for path in modules().values():
        names = set()
        for node in ast.walk(ast.parse((ROOT / path).read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    names.add(full if full in modules() else str(node.module))
        found[path] = {modules()[name] for name in names if name in modules()} - {path}
    return found


@cache
def layers(package: str) -> dict[str, int]:
    """Map each unit to its layer, 0 at the top."""
    lines = (ROOT / "tests" / "layers" / f"{package}.layers").read_text("utf-8").splitlines()
    rows = [line.split("#")[0].split() for line in lines]
    return {unit: number for number, row in enumerate(row for row in rows if row) for unit in row}


def unit(path: str) -> str:
    """Return the longest unit that `path` belongs to."""
    package, _, rest = path.removesuffix(".py").removesuffix("/__init__").partition("/")
    units = [name for name in layers(package) if rest == name or rest.startswith(f"{name}/")]
    assert units, f"{path} stands in no layer of tests/layers/{package}.layers"
    return max(units, key=len)


def points_up(path: str, other: str) -> bool:
    """Return whether an import within a package leaves its unit for one that is not below, or goes through the front
    door."""
    package = path.split("/", 1)[0]
    door = f"{package}/__init__.py"
    if path == door or not other.startswith(f"{package}/"):
        return False
    above, below = unit(path), unit(other)
    return other == door or (above != below and layers(package)[below] <= layers(package)[above])


@pytest.mark.parametrize("package", PACKAGES)
def test_layers_import_downward_only(package: str) -> None:
    """A module imports its own unit and the layers below it; never the front door of its package."""
    wrong = {f"{a} -> {b}" for a in imports() for b in imports()[a] if a.startswith(f"{package}/") and points_up(a, b)}
    assert sorted(wrong - known()) == []


def test_no_imports_run_in_a_circle() -> None:
    """Of all imports: one in a function, or for type checkers alone, ties two modules as well."""
    skip = known()
    graph = {a: {b for b in others if f"{a} -> {b}" not in skip} for a, others in imports().items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" <- ".join(error.args[1]))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_unit_is_there(package: str) -> None:
    """A layer that names nothing would hide a mistake."""
    paths = [ROOT / package / name for name in layers(package)]
    missing = [str(path.relative_to(ROOT)) for path in paths if not (path.exists() or path.with_suffix(".py").exists())]
    assert set(missing) <= known()


def test_no_folder_holds_more_than_a_screen() -> None:
    """Modules of one level, `__init__` aside: what a reader can take in at once."""
    files = [Path(path) for path in modules().values() if not path.endswith("__init__.py")]
    count = Counter(str(path.parent) for path in files)
    assert {folder: number for folder, number in count.items() if number > MOST_FILES} == {}


def known() -> set[str]:
    """Read the imports that still point up or close a circle, one `path -> path` a line. The list only shrinks."""
    return set((ROOT / "tests" / "layers" / "exceptions.txt").read_text("utf-8").splitlines())
