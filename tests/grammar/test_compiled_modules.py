"""The modules that wheels hold in compiled form do without what mypyc gets wrong and says nothing about."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "grammar" / "compiled_modules.txt"
LISTED = LIST.read_text("utf-8").splitlines()
_INTERPRETED = {"cached_property", "kernel", "njit"}
"""A `cached_property` would compute anew each time; numba reads the byte code of its loops, which is gone."""


def _name(node: ast.expr) -> str:
    """Return the last part of a dotted name, of what is called or of what is indexed."""
    if isinstance(node, ast.Call | ast.Subscript):
        return _name(node.func if isinstance(node, ast.Call) else node.value)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def silent_traps(source: str) -> list[str]:
    """Return what mypyc compiles to something else than the source says, without a message."""
    tree = ast.parse(source)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    lines = {node.name: node.lineno for node in classes}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            found += [f"{node.name} is a {_name(d)}" for d in node.decorator_list if _name(d) in _INTERPRETED]
    for node in classes:
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        if any(_name(base) == "NamedTuple" for base in node.bases):
            named = {_name(part) for each in fields for part in ast.walk(each.annotation) if isinstance(part, ast.expr)}
            found += [f"{node.name} names {name}" for name in named & lines.keys() if lines[name] > node.lineno]
        methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        values = [each.value for each in node.body if isinstance(each, ast.Assign)]
        found += [f"{node.name} aliases {_name(value)}" for value in values if _name(value) in methods]
    return found


@pytest.mark.parametrize(
    ("source", "trap"),
    [
        ("class A:\n    @functools.cached_property\n    def b(self): ...", "b is a cached_property"),
        ("class A:\n    @cached_property\n    def b(self): ...", "b is a cached_property"),
        ("@kernel(fallback=True)\ndef loop(row): ...", "loop is a kernel"),
        ("class A(NamedTuple):\n    b: tuple[B, ...]\nclass B: ...", "A names B"),
        ("class A(typing.NamedTuple):\n    b: B | None\nclass B: ...", "A names B"),
        ("class A:\n    def b(self): ...\n    c = b", "A aliases b"),
    ],
)
def test_what_compiles_to_something_else_is_found(source: str, trap: str) -> None:
    assert silent_traps(source) == [trap]


def test_a_named_tuple_may_name_itself_and_a_class_above_it() -> None:
    assert not silent_traps("class B: ...\nclass A(NamedTuple):\n    b: tuple[B, ...]\n    c: A | None = None")


def test_the_list_is_sorted_and_names_each_module_once() -> None:
    assert sorted(set(LISTED)) == LISTED


@pytest.mark.parametrize("path", LISTED)
def test_a_listed_module_exists_and_holds_no_trap(path: str) -> None:
    assert path.startswith("grammar/")
    assert not silent_traps((ROOT / path).read_text("utf-8"))
