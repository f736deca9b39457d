"""The clients that people use: what is tried of them, and that docs/clients.md says what the last try found.

Each runs in `make clients`, in an environment of its own; here run those whose packages this environment has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.clients import matrix, page
from tests.clients.catalogue import CLIENTS, SCRIPTS, Client
from tests.clients.environments import NotInstalled, environ, run_script
from tests.clients.gateways import gateways
from tests.clients.page import PAGE, Row, features_of, read_rows

HERE = {client.name: client for client in CLIENTS if client.name in ("openai", "mcp", "websockets", "curl")}


@pytest.fixture(scope="module")
def where() -> Iterator[dict[str, str]]:
    with gateways() as found:
        yield found


@pytest.mark.parametrize("name", HERE)
def test_each_feature_of_a_client_does_what_the_page_says(where: dict[str, str], name: str) -> None:
    if name != "curl" and find_spec(name) is None:
        pytest.skip(f"{name} is not installed here")
    client = HERE[name]
    done = run_script([sys.executable, str(SCRIPTS / client.script), json.dumps(where)])
    assert done.returncode == 0, done.stderr[-3000:]
    found = [Row(name, "", **json.loads(line)) for line in done.stdout.splitlines()]
    assert [row.feature for row in found] == features_of(client)
    told = {row.feature: (row.outcome, row.words) for row in read_rows() if row.client == name}
    assert {row.feature: (row.outcome, row.words) for row in found} == told


def test_the_page_is_what_the_command_last_wrote() -> None:
    """`make clients` writes both."""
    assert PAGE.read_text("utf-8") == page.page(read_rows())


def test_the_page_has_every_feature_of_every_client() -> None:
    """A feature that is added is tried before it is merged; a client that is gone leaves no rows."""
    found = [(row.client, row.feature) for row in read_rows()]
    assert found == [(client.name, feature) for client in CLIENTS for feature in features_of(client)]
    assert len({client.name for client in CLIENTS}) == len(CLIENTS) >= 25
    assert all(row.version and row.outcome in ("works", "refused", "fails") for row in read_rows())


def test_what_does_not_work_has_a_reason() -> None:
    assert all(row.words for row in read_rows() if row.outcome != "works")


def test_every_script_is_a_clients() -> None:
    shared = {"features.py", "features.mjs", "person.py"}
    assert {path.name for path in SCRIPTS.iterdir() if path.is_file()} - shared == {one.script for one in CLIENTS}


def trial(folder: Path, script: str) -> list[Row]:
    """Run a script in a fresh folder, as the command does, and return its rows."""
    path = folder / "use_x.py"
    path.write_text(f"from features import feature, run\n{script}\nrun()\n")
    command = [sys.executable, str(path), "{}"]
    environment = {**environ(), "PYTHONPATH": str(SCRIPTS)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    rows = [Row("x", "1", **json.loads(line)) for line in done.stdout.splitlines()]
    assert done.returncode == any(row.outcome == "fails" for row in rows)
    return rows


def test_a_feature_is_tried_whatever_became_of_the_others(tmp_path: Path) -> None:
    """Works, refused and fails are told apart by what was expected, not by what was hoped."""
    rows = trial(
        tmp_path,
        """
@feature("a")
def a(): pass
@feature("b")
def b(): raise ValueError("gone | wrong")
@feature("c", refused="not served")
async def c(): raise ValueError("it is not served")
@feature("d", refused="not served")
def d(): pass
@feature("e", refused="not served")
def e(): raise ValueError("out of memory")
@feature("f", raises="no model")
def f(): raise ValueError("no model x")
@feature("g", raises="no model")
def g(): pass
""",
    )
    assert [row.outcome for row in rows] == ["works", "fails", "refused", "fails", "fails", "works", "fails"]
    assert [row.words for row in rows[1:3]] == ["ValueError: gone | wrong", "not served"]
    line = page.page(rows).splitlines()[-1]
    assert line.count(" | ") == 3
    assert "gone / wrong" in line


def test_a_script_that_breaks_fails_in_every_feature(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that ends early, or cannot be installed, leaves no row out."""
    script = tmp_path / "use_x.py"
    script.write_text('@feature("a")\n@feature("b")\n')
    client = Client("x", (), str(script))
    broken = SimpleNamespace(stdout='{"feature": "a", "outcome": "works", "words": ""}\n', stderr="boom", returncode=1)
    monkeypatch.setattr(matrix, "drive", lambda *_: broken)
    monkeypatch.setattr(matrix, "version", lambda _: "1")
    assert [(row.feature, row.outcome) for row in matrix.tried(client, {}, anew=False).rows] == [
        ("a", "fails"), ("b", "fails"),
    ]  # fmt: skip

    def refuse(*_: object, **__: object) -> None:
        raise NotInstalled("no such package")

    monkeypatch.setattr(matrix, "install", refuse)
    assert {row.words for row in matrix.tried(client, {}, anew=False).rows} == {"not installed: no such package"}


def test_scripts_see_nothing_of_this_machine_that_sends_them_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "https_proxy", "PYTHONPATH"):
        monkeypatch.setenv(name, "elsewhere")
    assert "elsewhere" not in environ().values()
    assert environ()["PATH"] == os.environ["PATH"]
