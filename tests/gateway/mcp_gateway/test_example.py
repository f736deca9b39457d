"""examples/mcp does what its README says, with the server that its configuration starts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from sluicegate.gateway.commands.cli import _parser
from sluicegate.gateway.testing import TestApp
from tests.gateway.mcp_gateway.agents import tools_for_operators

ROOT = Path(__file__).parents[3]
EXAMPLE = Path("examples") / "mcp"
BLOCK = re.compile(r"^```(?:sh)?\n(.*?)^```", re.M | re.S)
SHOWN = "http://127.0.0.1:8000"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Copy the example to write pins into, as the folder where a reader stands. Its `python` is the one that runs the
    tests."""
    shutil.copytree(ROOT / EXAMPLE, tmp_path / EXAMPLE, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def test_the_agent_prints_what_the_page_says(root: Path) -> None:
    commands, printed = BLOCK.findall((root / EXAMPLE / "README.md").read_text("utf-8"))
    serve, agent = (shlex.split(line) for line in commands.splitlines())
    config = Path(_parser(serve[1:]).parse_args(serve[1:]).config)
    settings = tomllib.loads(config.read_text("utf-8"))
    with TestApp(pipeline=settings.pop("pipeline"), settings=settings) as app:
        assert (serve[0], agent[0], agent.count(SHOWN)) == ("sluicegate", "python", 1)
        asked = [sys.executable, *(app.url if part == SHOWN else part for part in agent[1:])]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=300)
        pinned = {name for name, tool in tools_for_operators(app).items() if tool["status"] == "approved"}
    assert done.returncode == 0, done.stderr
    assert done.stdout == printed
    assert pinned == {"notes/list_notes", "notes/read_note"}
    assert (root / settings["mcp"]["path"]).exists()
