"""Every example of the documents runs, against a real gateway: what a page prints is what its reader can type.
Configurations name settings that exist.

A block that cannot run here has a comment before it, `<!-- not run: REASON -->`, which no reader sees.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tomllib
from argparse import ArgumentParser, _SubParsersAction
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sluicegate.gateway.commands.cli import _parser
from sluicegate.gateway.commands.config import mistakes
from tests.gateway.conftest import RunningGateway, running

ROOT = Path(__file__).resolve().parents[2]
SHOWN = "http://127.0.0.1:8000"
BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>.*?) -->\n)?^```(?P<language>\w+)[^\n]*\n(?P<code>.*?)^```", re.M | re.S
)
OWN_TEST = ("plugins.md",)
"""Followed from beginning to end by `tests/plugins/test_docs.py`."""
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "guides").glob("*.md"))]


@dataclass(frozen=True)
class Block:
    place: str
    language: str
    code: str
    reason: str


def blocks(*languages: str) -> list[Block]:
    found = []
    for page in PAGES:
        text = page.read_text("utf-8")
        for block in BLOCK.finditer(text):
            line = text[: block.start("code")].count("\n") + 1
            place = f"{page.relative_to(ROOT)}:{line}"
            found.append(Block(place, block["language"], block["code"], block["reason"] or ""))
    return [block for block in found if block.language in languages]


def run(*languages: str) -> list[Block]:
    return [
        block for block in blocks(*languages) if not block.place.startswith(tuple(f"docs/{page}" for page in OWN_TEST))
    ]


def place_of(block: object) -> str:
    return block.place if isinstance(block, Block) else str(block)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with running({"batches": {"path": str(tmp_path_factory.mktemp("batches"))}}) as found:
        yield found


@pytest.mark.parametrize("block", run("python"), ids=place_of)
def test_python_runs(block: Block, served: RunningGateway) -> None:
    if block.reason:
        pytest.skip(block.reason)
    names = {"__name__": "example"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(block.code.replace(SHOWN, served.url), block.place, "exec", dont_inherit=True), names)


@pytest.mark.parametrize("block", run("sh", "bash"), ids=place_of)
def test_a_shell_takes_it(block: Block, served: RunningGateway, tmp_path: Path) -> None:
    if block.reason:
        pytest.skip(block.reason)
    scripts = tmp_path / "bin"
    scripts.mkdir()
    command = scripts / "sluicegate"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m sluicegate.gateway.commands.cli "$@"\n')
    command.chmod(0o755)
    environ = os.environ | {"PATH": f"{scripts}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    code = re.sub(r"\bcurl -s\b", "curl -s --fail-with-body", block.code.replace(SHOWN, served.url))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", blocks("sh", "bash", "console"), ids=place_of)
def test_commands_have_the_arguments_that_are_shown(block: Block) -> None:
    """Those that are not run, too."""
    lines = [line.removeprefix("$ ") for line in block.code.replace("\\\n", " ").splitlines()]
    for line in lines:
        if line.startswith("sluicegate ") and "|" not in line:
            words = shlex.split(line, comments=True)[1:]
            if words[:1] != ["--help"]:
                _parser(words).parse_args(words)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.name)
def test_commands_within_a_sentence_have_the_options_that_are_named(page: Path) -> None:
    """They are often shortened, so that arguments may be missing."""
    for command in re.findall(r"`sluicegate ([a-z][^`]*)`", page.read_text("utf-8")):
        words = command.split()
        named = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert named <= options_of(words) | {"--help", "--debug"}, command


def options_of(words: list[str]) -> set[str]:
    """Return the options of the command that `words` begin with."""
    parser: ArgumentParser = _parser(words)
    for word in words:
        below = next((each for each in parser._actions if isinstance(each, _SubParsersAction)), None)
        if below is None:
            break
        parser = below.choices[word]
    return set(parser._option_string_actions)


@pytest.mark.parametrize("block", run("toml"), ids=place_of)
def test_settings_have_the_names_that_are_shown(block: Block) -> None:
    """Files, keys and variables of the environment may be missing here; a name that no table has is a mistake."""
    if block.reason:
        pytest.skip(block.reason)
    refused, _ = mistakes(tomllib.loads(block.code))
    assert [text for text in refused if "alid names: " in text or "is installed for slot" in text] == []


def test_what_is_not_run_says_why() -> None:
    assert all(len(block.reason.split()) >= 3 for block in blocks("python", "sh", "bash", "toml") if block.reason)
