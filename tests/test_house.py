"""The shape of the house: imports only point down, every front door is complete, documents name what exists."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("gateway", "safety", "grammar", "engine", "cache", "plugins")
MAY_IMPORT = {
    "gateway": {"safety", "grammar", "engine", "cache", "plugins"},
    "safety": {"cache", "plugins"},
    "grammar": {"cache", "plugins"},
    "engine": {"cache", "plugins"},
    "cache": {"plugins"},
    "plugins": set(),
}


def modules(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level names that a file imports anywhere, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_only_point_down(package: str) -> None:
    """No module imports a package beside or above its own."""
    for path in modules(package):
        wrong = imported(path) & set(PACKAGES) - MAY_IMPORT[package] - {package}
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"
        assert not imported(path) & {"tests", "training", "benchmarks"}, path


@pytest.mark.parametrize("package", PACKAGES)
def test_all_of_a_package_is_complete(package: str) -> None:
    """`__all__` is exactly what `__init__` imports by a public name, and every name resolves."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text("utf-8"))
    public = {
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module != "__future__"
        for alias in node.names
        if not (alias.asname or alias.name).startswith("_")
    }
    public |= {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    door = importlib.import_module(package)
    assert set(door.__all__) == public
    assert all(hasattr(door, name) for name in door.__all__)


def test_every_package_is_shipped() -> None:
    """An editable install finds what a wheel would lack, so the list is checked here."""
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["packages"]
    folders = {path.parent.relative_to(ROOT) for package in PACKAGES for path in modules(package)}
    assert {".".join(folder.parts) for folder in folders} == set(listed)


def test_a_plugin_author_needs_no_heavy_import() -> None:
    """Importing the contract pulls in none of torch, transformers, fastapi."""
    code = "import plugins, sys; print([m for m in ('torch', 'transformers', 'fastapi') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_map_of_the_house_names_every_module_once_and_in_order() -> None:
    """CONTRIBUTING has one line for each module of the six packages and none for others, sorted in each package."""
    lines = re.findall(r"^- `([\w/]+\.py)`: ", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    for package in PACKAGES:
        there = [str(path.relative_to(ROOT)) for path in modules(package) if path.name != "__init__.py"]
        assert [line for line in lines if line.startswith(f"{package}/")] == sorted(there)
