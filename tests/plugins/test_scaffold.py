"""`sluicegate plugins new` writes a stage that works, for every slot; test_docs.py installs one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from sluicegate.plugins import SLOTS, ConfigurationError, Registry
from sluicegate.plugins.scaffold import next_steps, scaffold
from sluicegate.plugins.testing import ScriptedModel, Unconstrained, check_stage


def loaded(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("slot", SLOTS)
def test_what_is_scaffolded_keeps_the_contract_of_its_slot(slot: Any, tmp_path: Path) -> None:
    """Registered through its own door and made with default settings, it has no fault."""
    folder = scaffold(f"new-{slot}", slot, tmp_path)
    registry = Registry()
    registry.add("constrain", "grammar", lambda settings: Unconstrained())
    registry.add("generate", "engine", lambda settings: ScriptedModel())
    registry.register_from("new", made(folder, slot).register)
    assert check_stage(slot, registry.build(slot, f"new-{slot}", {})) == []


@pytest.mark.parametrize("slot", SLOTS)
def test_the_scaffolded_test_passes(slot: Any, tmp_path: Path) -> None:
    """As it was written: its functions, and each promise of its contract."""
    folder = scaffold(f"new-{slot}", slot, tmp_path)
    made(folder, slot)
    test = loaded(folder / "tests" / f"test_sluicegate_new_{slot}.py", f"test_sluicegate_new_{slot}")
    ran = 0
    for name, found in vars(test).items():
        if name.startswith("Test"):
            promises = [promise for promise in dir(found) if promise.startswith("test_")]
            ran += len([getattr(found(), promise)() for promise in promises])
        elif name.startswith("test_it_"):
            ran += len([found()])
    assert ran


def made(folder: Path, slot: str) -> ModuleType:
    return loaded(folder / f"sluicegate_new_{slot}" / "__init__.py", f"sluicegate_new_{slot}")


@pytest.mark.parametrize("name", ["", "Tickets", "tickets!", "../tickets", "2fast", "a--b", "a-", "a_b"])
def test_a_name_that_no_package_can_have_is_refused(name: str, tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(ConfigurationError, match="cannot be a plug-in's name"):
        scaffold(name, "moderate", tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_ever_overwritten(tmp_path: Path) -> None:
    """A second run is refused and leaves the author's work alone."""
    readme = scaffold("tickets", "moderate", tmp_path) / "README.md"
    readme.write_text("mine")
    with pytest.raises(ConfigurationError, match="File exists"):
        scaffold("tickets", "moderate", tmp_path)
    assert readme.read_text() == "mine"


def test_the_next_steps_install_what_they_run(tmp_path: Path) -> None:
    """An environment of Sluicegate has no pytest: `python -m pytest` ended with "No module named pytest"."""
    written = scaffold("ticket-numbers", "moderate", tmp_path)
    readme = (written / "README.md").read_text("utf-8")
    for steps in (next_steps(written, "ticket-numbers"), readme):
        lines = [line.split("#")[0].split() for line in steps.splitlines()]
        assert ["pip", "install", "-e", ".", "pytest"] in lines
        assert ["python", "-m", "pytest"] in lines
