"""The packages in examples/ pass their own tests, and say in their files what is true of them."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.config import load
from sluicegate.plugins import SLOTS, Registry
from sluicegate.plugins.testing import PlainAssembler, ScriptedModel, Unconstrained
from tests.plugins.conftest import ROOT

EXAMPLES = sorted(path.parent for path in (ROOT / "examples").glob("*/pyproject.toml"))
NAMES = [path.name for path in EXAMPLES]


def test_all_examples_pass_their_own_tests() -> None:
    """As an author runs them, with nothing but Sluicegate and the package on the path."""
    path = os.pathsep.join(map(str, [ROOT, *EXAMPLES]))
    options = ["-q", "--import-mode=importlib", "--rootdir", str(ROOT / "examples"), "-c", os.devnull]
    command = [sys.executable, "-m", "pytest", *options, "-p", "no:cacheprovider", *map(str, EXAMPLES)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registry:
    """Register every example through the entry point that its pyproject.toml names."""
    registry = Registry()
    registry.add("assemble", "chat-template", lambda settings: PlainAssembler())
    registry.add("constrain", "grammar", lambda settings: Unconstrained())
    registry.add("generate", "engine", lambda settings: ScriptedModel())
    for folder in EXAMPLES:
        monkeypatch.syspath_prepend(str(folder))
        ((name, place),) = entry_points_of(folder).items()
        module, _, function = place.partition(":")
        registry.register_from(name, getattr(__import__(module), function))
    return registry


def entry_points_of(folder: Path) -> dict[str, Any]:
    table = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))
    found: dict[str, Any] = table["project"]["entry-points"]["sluicegate.plugins"]
    return found


def test_every_slot_is_filled_by_an_example(registered: Registry) -> None:
    """No slot is a promise on paper."""
    filled = {stage.slot for stage in registered.all() if stage.source == "every-slot"}
    assert filled == set(SLOTS)


def test_the_configuration_that_enables_all_nine_is_one(registered: Registry) -> None:
    """Every name in it is registered or built in, and every stage takes its settings."""
    settings = load(ROOT / "examples" / "sluicegate-every-slot" / "every-slot.toml")
    ours = {(stage.slot, stage.name) for stage in registered.all() if stage.source == "every-slot"}
    enabled = {(slot, name) for slot in SLOTS for name in getattr(settings.pipeline, slot)}
    assert ours <= enabled
    for slot, name in sorted(ours):
        registered.build(slot, name, settings.of_stage(slot, name))


@pytest.mark.parametrize("folder", EXAMPLES, ids=NAMES)
def test_an_example_imports_the_contract_and_nothing_else_of_ours(folder: Path) -> None:
    """What a stranger cannot rely on, an example must not use."""
    ours = ("gateway", "safety", "grammar", "engine", "cache")
    for path in folder.rglob("*.py"):
        for line in path.read_text("utf-8").splitlines():
            assert not line.lstrip().startswith(tuple(f"{verb} {name}" for verb in ("from", "import") for name in ours))
