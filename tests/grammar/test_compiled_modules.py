"""The modules that wheels hold in compiled form do without what mypyc gets wrong and says nothing about."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

import pytest

from sluicegate.grammar import compiled

ROOT = Path(__file__).resolve().parents[2]
LISTED = compiled.names()
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
        if isinstance(node, ast.Attribute) and node.attr == "__new__" and _name(node.value) != "tuple":
            found.append(f"{_name(node.value)}.__new__ asks for the arguments of __init__")
        if isinstance(node, ast.FunctionDef):
            found += [f"{node.name} is a {_name(d)}" for d in node.decorator_list if _name(d) in _INTERPRETED]
    for node in classes:
        found += [f"{node.name} derives from {_name(base)}" for base in node.bases if _name(base) == "local"]
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign)]
        if any(_name(base) == "NamedTuple" for base in node.bases):
            named = {_name(part) for each in fields for part in ast.walk(each.annotation) if isinstance(part, ast.expr)}
            found += [f"{node.name} names {name}" for name in named & lines.keys() if lines[name] > node.lineno]
        methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
        values = [each.value for each in node.body if isinstance(each, ast.Assign)]
        found += [f"{node.name} aliases {_name(value)}" for value in values if _name(value) in methods]
    return found


def hidden_properties(sources: Iterable[str]) -> list[str]:
    """Return the properties that a base class has as an attribute: compiled code reads that one."""
    nodes = [node for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    bases = {node.name: [_name(base) for base in node.bases] for node in nodes}
    attributes = {node.name: _attributes(node) for node in nodes}
    found = []
    for node in nodes:
        above = bases[node.name]
        for name in above:  # grows while it is gone through
            above += bases.get(name, [])
            found += [f"{node.name}.{each}" for each in _properties(node) & attributes.get(name, set())]
    return found


def _properties(node: ast.ClassDef) -> set[str]:
    methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    return {each.name for each in methods if "property" in map(_name, each.decorator_list)}


def _attributes(node: ast.ClassDef) -> set[str]:
    own = {_name(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
    own |= {_name(target) for each in node.body if isinstance(each, ast.Assign) for target in each.targets}
    stored = [each for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store)]
    return own | {each.attr for each in stored if _name(each.value) == "self"}


@pytest.mark.parametrize(
    ("source", "trap"),
    [
        ("class A:\n    @functools.cached_property\n    def b(self): ...", "b is a cached_property"),
        ("class A:\n    @cached_property\n    def b(self): ...", "b is a cached_property"),
        ("@kernel(fallback=True)\ndef loop(row): ...", "loop is a kernel"),
        ("class A(NamedTuple):\n    b: tuple[B, ...]\nclass B: ...", "A names B"),
        ("class A(typing.NamedTuple):\n    b: B | None\nclass B: ...", "A names B"),
        ("class A:\n    def b(self): ...\n    c = b", "A aliases b"),
        ("a = A.__new__(A)", "A.__new__ asks for the arguments of __init__"),
        ("class A(threading.local):\n    b = 0", "A derives from local"),
    ],
)
def test_what_compiles_to_something_else_is_found(source: str, trap: str) -> None:
    assert silent_traps(source) == [trap]


def test_a_named_tuple_may_name_itself_and_a_class_above_it() -> None:
    assert not silent_traps("class B: ...\nclass A(NamedTuple):\n    b: tuple[B, ...]\n    c: A | None = None")


@pytest.mark.parametrize("attribute", ["    c = 1", "    c: int", "    def __init__(self):\n        self.c = 1"])
def test_a_property_below_an_attribute_is_found(attribute: str) -> None:
    below = "class B(A[int]): ...\nclass C(B):\n    @property\n    def c(self): ..."
    assert hidden_properties([below, f"class A:\n{attribute}"]) == ["C.c"]
    assert not hidden_properties([below, "class A:\n    @property\n    def c(self): ..."])


def test_no_property_stands_below_an_attribute() -> None:
    assert not hidden_properties((ROOT / path).read_text("utf-8") for path in LISTED)


def test_no_class_that_stays_interpreted_derives_from_a_compiled_one() -> None:
    """It could not be made at all, and only a compiled grammar would show that."""
    machine_code = {node.name for path in LISTED for node in _classes(ROOT / path)}
    others = {path for path in (ROOT / "grammar").rglob("*.py") if str(path.relative_to(ROOT)) not in LISTED}
    wrong = [
        f"{path.relative_to(ROOT)}: {node.name}({_name(base)})"
        for path in sorted(others)
        for node in _classes(path)
        for base in node.bases
        if _name(base) in machine_code - {node.name for node in _classes(path)}
    ]
    assert not wrong, "list these modules as well"


def _classes(path: Path) -> list[ast.ClassDef]:
    return [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ClassDef)]


def test_the_list_is_sorted_and_names_each_module_once() -> None:
    assert sorted(set(LISTED)) == LISTED


@pytest.mark.parametrize("path", LISTED)
def test_a_listed_module_exists_and_holds_no_trap(path: str) -> None:
    assert path.startswith("grammar/")
    assert not silent_traps((ROOT / path).read_text("utf-8"))
