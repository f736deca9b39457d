"""Whether the grammar runs compiled is told truly, and what is stale does not run."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import venv
import weakref
from pathlib import Path
from typing import Any

import pytest

from sluicegate.grammar import compile_regex, compiled, is_compiled
from sluicegate.grammar.matching import matcher
from tests.grammar.grammar_checks import byte_vocabulary

ROOT = Path(__file__).parents[2]


def test_what_a_module_was_loaded_from_is_told() -> None:
    assert is_compiled() == (not str(matcher.__file__).endswith(".py"))


def test_modules_that_changed_since_they_were_compiled_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    record = tmp_path / "compiled_in_place.json"
    monkeypatch.setattr(compiled, "IN_PLACE", record)
    compiled.refuse_stale()  # nothing was compiled in place
    stamps = compiled.stamps()
    record.write_text(json.dumps(stamps))
    compiled.refuse_stale()
    first = compiled.names()[0]
    for other in ({**stamps, first: [1, 2]}, {name: stamp for name, stamp in stamps.items() if name != first}):
        record.write_text(json.dumps(other))
        with pytest.raises(ImportError, match=f"{first} has changed .* `make compiled`"):
            compiled.refuse_stale()


@pytest.mark.parametrize(
    ("value", "order", "says"),
    [("yes", "--version", "found 'yes'"), ("1", "editable_wheel", "compiled modules would be stale unnoticed")],
)
def test_a_build_that_would_go_wrong_is_refused(value: str, order: str, says: str) -> None:
    environment = {**os.environ, "SLUICEGATE_COMPILE": value}
    done = subprocess.run(
        [sys.executable, "setup.py", order], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert says in done.stderr


def test_a_grammar_can_be_held_weakly() -> None:
    """The engine notes which grammars were slow, and keeps none of them alive for that."""
    grammar = compile_regex("a", byte_vocabulary())
    assert weakref.ref(grammar)() is grammar


def settings_of_the_build() -> dict[str, Any]:
    """Return the constants of setup.py, which builds something where it is imported."""
    assigned = [node for node in ast.parse((ROOT / "setup.py").read_text("utf-8")).body if isinstance(node, ast.Assign)]
    literals = [node for node in assigned if isinstance(node.value, ast.Constant | ast.Tuple)]
    return {
        node.targets[0].id: ast.literal_eval(node.value) for node in literals if isinstance(node.targets[0], ast.Name)
    }


def test_a_wheel_is_compiled_where_nothing_is_installed_but_what_the_build_asks_for(tmp_path: Path) -> None:
    """As in an image, or in an empty environment. Beside the packages of a checkout nothing was missed."""
    build = settings_of_the_build()
    venv.create(tmp_path / "empty")
    [packages] = (tmp_path / "empty").glob("lib/python*/site-packages")
    needed = re.match(r"\w+", build["TYPES"])
    assert needed is not None
    [installed] = __import__(needed.group()).__path__
    (packages / needed.group()).symlink_to(installed)
    tree = tmp_path / "sluicegate"
    tree.mkdir()
    for name in ("grammar", "plugins", "sluicegate/__init__.py"):
        (tree / Path(name).name).symlink_to(ROOT / name)
    modules = [f"sluicegate/{name}" for name in compiled.names()]
    options = [*build["LENIENT"], f"--cache-dir={tmp_path / 'cache'}"]
    options.append(f"--python-executable={tmp_path / 'empty' / 'bin' / 'python'}")
    command = [sys.executable, "-m", "mypy", *options, *modules]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
