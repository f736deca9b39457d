"""The shape of the house: imports only point down, every front door is complete, documents name what exists."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from sluicegate.gateway.commands.cli import COMMANDS

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


Parse = Callable[[Path], ast.Module]


@pytest.fixture(scope="module")
def parsed() -> Parse:
    """Return a function that parses a file once; the trees are dropped after the last test of this module."""
    return cache(lambda path: ast.parse(path.read_text("utf-8")))


def imported(path: Path, tree: ast.Module) -> set[str]:
    """Return the names that a file imports anywhere, inside functions too: for ours the package, for others the top
    level."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.relative_to(ROOT)}: imports are written out from the top"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name.removeprefix("sluicegate.").split(".")[0] for name in found}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_only_point_down(package: str, parsed: Parse) -> None:
    """No module imports a package beside or above its own."""
    for path in modules(package):
        names = imported(path, parsed(path))
        wrong = names & set(PACKAGES) - MAY_IMPORT[package] - {package}
        assert not wrong, f"{path.relative_to(ROOT)} imports {sorted(wrong)}"
        assert not names & {"tests", "training", "benchmarks"}, path


@pytest.mark.parametrize("package", PACKAGES)
def test_all_of_a_package_is_complete(package: str) -> None:
    """`__all__` is exactly what `__init__` imports by a public name, for type checkers alone or not; every name
    resolves, and none is that of a module, which would take its place as soon as it is imported."""
    tree = ast.parse((ROOT / package / "__init__.py").read_text("utf-8"))
    public = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module not in ("__future__", "typing", "sluicegate.plugins.lazy")
        for alias in node.names
        if not (alias.asname or alias.name).startswith("_")
    }
    public |= {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    }
    door = importlib.import_module(f"sluicegate.{package}")
    assert set(door.__all__) == public
    assert all(hasattr(door, name) for name in door.__all__)
    assert not public & {path.stem for path in (ROOT / package).iterdir()}


HEAVY = ("torch", "transformers", "numba", "lark", "numpy", "opentelemetry", "prometheus_client", "fastapi", "aiohttp")
LIGHT = [
    "--version",
    "--help",
    *(f"{name} --help" for name in COMMANDS),
    "keys list",
    "keys usage",
    "plugins list",
    "plugins new to-be-refused-",
    "cache stats --url http://127.0.0.1:9",
    "serve --config nowhere.toml",
]


@pytest.mark.parametrize("command", LIGHT)
def test_a_command_that_serves_nothing_is_light(command: str, tmp_path: Path) -> None:
    """It imports nothing that costs a tenth of a second or more, whether it does its work or refuses; `--help` and
    `--version` import no other module of ours."""
    code = (
        "import sys; from sluicegate.gateway.commands.cli import main\n"
        "try: main(sys.argv[1:])\nexcept SystemExit: pass\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
        "print([name for name in sys.modules if name.startswith('sluicegate.gateway.')])"
    )
    environ = {**os.environ, "SLUICEGATE_ACCOUNTS__PATH": str(tmp_path / "accounts.db"), "PYTHONPATH": str(ROOT)}
    run = [sys.executable, "-c", code, *command.split()]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True, env=environ)
    *_, heavy, ours = done.stdout.splitlines()
    assert heavy == "[]"
    if command.startswith("--"):
        assert ours == "['sluicegate.gateway.commands', 'sluicegate.gateway.commands.cli']"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_says_what_it_holds(package: str, parsed: Parse) -> None:
    """In its docstring, whose first paragraph is a sentence: that is the map of the house."""
    for path in modules(package):
        said = (ast.get_docstring(parsed(path)) or "").split("\n\n")[0]
        assert said.endswith((".", ":")), f"{path.relative_to(ROOT)}: begin with a sentence on what the module holds"


NO_VERBS = """A About After All An Another Any As At Before Both By Bytes Called Characters Content Each Every
Everything False For From Harmless How If In It Its JSON Messages Metrics Milliseconds Names Never New Newest No None
Nothing Numbers Of Oldest On Once One Only Pairs Pieces Positions Raises Random Readings Requests Returns Rows Same
Seconds Several So Some States Such Text Texts That The Their There These They This Those To Tokens True Two Until
Values Verdicts What Whatever When Where Whether Which While Who Whoever Whose Why With Without Words"""
"""How sentences begin that say what a function is, or when, and not what it does."""


@pytest.mark.parametrize("folder", [*PACKAGES, "tools", "training", "benchmarks"])
def test_docstrings_of_functions_begin_with_a_verb(folder: str, parsed: Parse) -> None:
    """In the imperative, those of properties too. The linter (D401) finds wrong forms of verbs; this finds words that
    are no verbs."""
    wrong = [
        f"{path.relative_to(ROOT)}:{function.body[0].lineno}: {said[:60]!r}"
        for path in modules(folder)
        for function in functions(parsed(path))
        if (said := ast.get_docstring(function)) is not None and not begins_with_a_verb(said)
    ]
    assert not wrong


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield all functions, those of classes and within functions too; expressions hold none."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            yield from functions(node)


def begins_with_a_verb(said: str) -> bool:
    """Return whether the first word may be a verb: a capitalised word of letters that `NO_VERBS` does not hold."""
    word = said.split(maxsplit=1)[0].rstrip(".,:;") if said else ""
    return word[:1].isupper() and word.replace("-", "").isalpha() and word not in NO_VERBS.split()


def test_every_package_is_shipped() -> None:
    """An editable install finds what a wheel would lack, so the list is checked here."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    folders = {path.parent.relative_to(ROOT).as_posix() for package in PACKAGES for path in modules(package)}
    expected = {f"sluicegate.{folder.replace('/', '.')}": folder for folder in folders}
    assert table["package-dir"] == expected
    assert set(table["packages"]) == {"sluicegate", *expected}


def test_nothing_but_one_name_is_installed() -> None:
    """`cache`, `engine` and `plugins` stay free for whoever installs us; type checkers find all six by links."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    assert all(name.split(".")[0] == "sluicegate" for name in table["packages"])
    assert (ROOT / "sluicegate" / "py.typed").exists()
    for package in PACKAGES:
        assert (ROOT / "sluicegate" / package).readlink() == Path("..") / package


EMPTY = re.compile(r"(dict|list|set|deque|OrderedDict|defaultdict|Counter|Weak\w+)(\[.*\])?\(|\[\]$|\{\}$")
"""What a module makes in order to fill it later."""


@pytest.mark.parametrize("package", PACKAGES)
def test_no_module_keeps_state(package: str, parsed: Parse) -> None:
    """No `global`, and no empty container at module level but one that its annotation makes read-only."""
    for path in modules(package):
        tree = parsed(path)
        assert not [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Global)], path
        for node in tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            frozen = isinstance(node, ast.AnnAssign) and "Mapping" in ast.unparse(node.annotation)
            text = ast.unparse(value) if value is not None else ""
            is_empty = EMPTY.match(text) is not None and (text.endswith("()") or text in ("[]", "{}"))
            assert frozen or not is_empty, f"{path.relative_to(ROOT)}:{node.lineno}: {text}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_checkpoint_brings_code_that_is_run(package: str, parsed: Parse) -> None:
    """Whatever `transformers` loads by a configuration's word is told not to run the checkpoint's own code."""
    for path in modules(package):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "from_pretrained":
                told = {word.arg: word.value for word in node.keywords}
                trust = told.get("trust_remote_code")
                chosen_by_config = ast.unparse(node.func).lower().startswith(("auto", "transformers.auto"))
                refused = isinstance(trust, ast.Constant) and trust.value is False
                assert refused or not chosen_by_config, f"{path}:{node.lineno}: say trust_remote_code=False"


def test_no_class_name_means_two_things(parsed: Parse) -> None:
    """A name found in a message or a traceback leads to one class, private ones and those inside functions too."""
    defined: dict[str, list[str]] = {}
    for path in (path for package in PACKAGES for path in modules(package)):
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.ClassDef):
                defined.setdefault(node.name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert {name: places for name, places in defined.items() if len(places) > 1} == {}


def test_a_plugin_author_needs_no_heavy_import() -> None:
    """Importing the contract pulls in none of torch, transformers, fastapi."""
    heavy = ("torch", "transformers", "fastapi")
    code = f"import sys, sluicegate.plugins; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def files() -> list[Path]:
    """Return all of the house, without what is made: environments, caches, builds."""
    top = [path for path in ROOT.iterdir() if path.name[0] != "." and path.name not in ("build", "node_modules")]
    return [file for path in top for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]


def prose(path: Path) -> str:
    """Return a document without its blocks of code."""
    return re.sub(r"^( *)```.*?^\1```", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """Return what GitHub calls the headings of a document, where no two are alike."""
    headings = re.findall(r"^#{1,6} +(.+)$", prose(path), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in plain}


def test_links_between_documents_lead_somewhere() -> None:
    """Each leads to a file that is there, and to a heading of it."""
    dead = []
    for document in (file for file in files() if file.suffix == ".md"):
        for link in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = document.parent / name if name else document
            if not target.exists() or (anchor and anchor not in anchors(target)):
                dead.append(f"{document.relative_to(ROOT)}: {link}")
    assert not dead


def test_documents_name_files_that_are_there() -> None:
    """By their path or the end of it: `faults/test_edges.py` is enough. Changes may name what is gone."""
    there = {"/" + file.relative_to(ROOT).as_posix() for file in files()}
    gone = []
    for document in (file for file in files() if file.suffix == ".md" and file.parent.name != "changelog.d"):
        for name in re.findall(r"`([\w.-]+(?:/[\w.-]+)+\.(?:py|md|toml|js|html|ya?ml))`", prose(document)):
            if not any(file.endswith(f"/{name}") for file in there):
                gone.append(f"{document.relative_to(ROOT)}: {name}")
    assert not gone


def test_every_decision_is_in_the_index_and_says_how_it_stands() -> None:
    """`docs/decisions/README.md` has a line for each page, with its title; each page begins with number and status."""
    folder = ROOT / "docs" / "decisions"
    expected = []
    for page in sorted(folder.glob("0*.md")):
        text = page.read_text("utf-8")
        title = re.match(rf"# {page.name[:4]}: (.+)\n\nStatus: \w", text)
        assert title, (
            f"{page.name} must begin with `# {page.name[:4]}: Title`, a blank line, and `Status: accepted ...`"
        )
        expected.append(f"- [{page.name[:4]}]({page.name}): {title[1]}")
    index = (folder / "README.md").read_text("utf-8")
    assert [line for line in index.splitlines() if line.startswith("- ")] == expected, "the index needs a line a page"


def test_every_fragment_of_the_changelog_can_be_gathered() -> None:
    """Named for its kind, and sentences: what a release puts together needs no second look."""
    for fragment in (ROOT / "changelog.d").iterdir():
        if fragment.name == "README.md":
            continue
        assert re.fullmatch(r"[\w-]+\.(added|changed|fixed|removed)\.md", fragment.name), fragment.name
        text = fragment.read_text("utf-8")
        assert re.fullmatch(r"[^-*#].*\.\n", text, re.DOTALL), f"{fragment.name}: sentences, no list and no heading"


def test_no_test_alters_a_module_for_the_whole_process() -> None:
    """`tests.altered` changes it for whom it is about: a clock that is set for all stops the event loops of others."""
    allowed = {("sys", "stdin"), ("sys", "dont_write_bytecode")}
    wrong = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path in (ROOT / "tests").rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call) and (found := _altered(call)) is not None and found not in allowed
    ]
    assert not wrong


def _altered(call: ast.Call) -> tuple[str, str] | None:
    """Return the module of Python's own that a call of `setattr` changes, and what in it."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "setattr" or not call.args:
        return None
    target, *rest = call.args
    if isinstance(target, ast.Name) and rest and isinstance(rest[0], ast.Constant):
        module, name = target.id, str(rest[0].value)
    elif isinstance(target, ast.Constant) and "." in str(target.value):
        *before, name = str(target.value).split(".")
        module = before[-1] if len(before) > 1 or before[0] in sys.stdlib_module_names else ""
    else:
        return None
    return (module, name) if module in sys.stdlib_module_names else None
