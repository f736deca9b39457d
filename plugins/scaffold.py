"""`sluicegate plugins new NAME`: an installable package with one stage, its README, and a test that it passes."""

from __future__ import annotations

import re
from pathlib import Path
from string import Template

from sluicegate.plugins.contract.names import API_VERSION, SLOTS, SlotName
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.plugins.skeletons import SKELETONS, Skeleton

LINE = 120
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

PYPROJECT = """[build-system]
requires = ["setuptools>=77"]
build-backend = "setuptools.build_meta"

[project]
name = "sluicegate-$name"
version = "0.1.0"
description = "A plug-in for Sluicegate, slot $slot."
readme = "README.md"
requires-python = ">=3.11"
# Sluicegate is an application: install this into its environment. It is no dependency that pip could fetch.
dependencies = []

[project.entry-points."sluicegate.plugins"]
$name = "$module:register"

[tool.setuptools]
packages = ["$module"]

[tool.pytest.ini_options]
testpaths = ["tests"]
"""

README = """# sluicegate-$name

A stage for slot `$slot` of Sluicegate.

    pip install -e . pytest               # into the environment of Sluicegate
    python -m pytest                      # its own tests
    sluicegate plugins check $name

In the gateway's configuration, where `$slot` lists what runs, in order:

    [pipeline]
    $slot = ["$name"]

    [stages.$slot.$name]
$table"""

STAGE = '''"""Slot `$slot`, stage `$name`."""

from __future__ import annotations

$imports

$body

def register(registry: RegistryLike) -> None:
    """The door that `pyproject.toml` names. `settings` is the table `[stages.$slot.$name]`."""

    def make(settings: Mapping[str, Any]) -> $Class:
        return $made

    registry.add("$slot", "$name", make, api_version=$api_version)
'''

RAIL_TEST = '''"""The rail against its contract, and once through a whole gateway."""

from __future__ import annotations

from $module import $Class, register

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins.testing import $contract


class Test$Class($contract):
    """One test for each promise, on the examples in the rail's `properties`. Give your own as `examples`."""

    def rail(self) -> $Class:
        return $Class()


def test_it_works_in_a_gateway() -> None:
    """The model says what `script` says, in these pieces."""
    with TestApp(register, pipeline={"$slot": ["$name"]}, script=["Hello from ", "the mo", "del"]) as gateway:
        assert gateway.ask("Hello").text == "Hello from the model"
'''

STAGE_TEST = '''"""The stage against its slot's contract; add what it is for."""

from __future__ import annotations

from $module import $Class

from sluicegate.plugins.testing import $doubles


def test_it_keeps_the_contract_of_its_slot() -> None:
    """A fault says what was expected."""
    assert check_stage("$slot", $tested) == []
'''


def scaffold(name: str, slot: SlotName = "moderate", into: Path = Path()) -> Path:
    """Write the package into a new folder `sluicegate-NAME` and return it. Raises `ConfigurationError` for a name that
    is no valid package name, an unknown slot, or an existing folder; overwrites nothing."""
    if not NAME.fullmatch(name):
        raise ConfigurationError(f"{name!r} cannot be a plug-in's name; use lower-case letters, digits, single dashes")
    if slot not in SLOTS:
        raise ConfigurationError(f"there is no slot {slot!r}; the slots are {', '.join(SLOTS)}")
    folder = into / f"sluicegate-{name}"
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make the folder {folder}: {error.strerror}; nothing was written") from error
    for path, text in _files(name, slot).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, "utf-8")
    return folder


def next_steps(folder: Path, name: str) -> str:
    """Return the commands to type next, for the terminal."""
    return (
        f"{folder} is an installable plug-in that passes its own tests. Now:\n"
        f"  cd {folder}\n"
        "  pip install -e . pytest\n"
        "  python -m pytest\n"
        f"  sluicegate plugins check {name}"
    )


def _files(name: str, slot: SlotName) -> dict[str, str]:
    skeleton = SKELETONS[slot]
    words = _words(name, slot, skeleton)
    test = RAIL_TEST if slot in ("moderate", "screen") else STAGE_TEST
    return {
        "pyproject.toml": _filled(PYPROJECT, words),
        "README.md": _filled(README, words),
        f"{words['module']}/__init__.py": _filled(STAGE, words),
        f"tests/test_{words['module']}.py": _filled(test, words),
    }


def _words(name: str, slot: SlotName, skeleton: Skeleton) -> dict[str, str]:
    words = {
        "name": name,
        "slot": slot,
        "module": f"sluicegate_{name.replace('-', '_')}",
        "Class": "".join(part.capitalize() for part in name.split("-")),
        "api_version": str(API_VERSION),
        "contract": "RailContract" if slot == "moderate" else "ScreenContract",
        "imports": _imports(skeleton),
        "doubles": ", ".join(sorted([*skeleton.doubles, "check_stage"])),
        "table": "".join(f"    {line}\n" for line in skeleton.table.splitlines()) or "    # it has no settings yet\n",
    }
    for part in ("body", "made", "tested"):
        words[part] = _filled(getattr(skeleton, part), words)
    return words


def _imports(skeleton: Skeleton) -> str:
    counter = "from collections import Counter\n" if "Counter" in skeleton.body else ""
    names = sorted({*skeleton.imports, "RegistryLike"})
    ours = f"from sluicegate.plugins import {', '.join(names)}"
    if len(ours) > LINE:
        ours = "from sluicegate.plugins import (\n" + "".join(f"    {name},\n" for name in names) + ")"
    return f"{counter}from collections.abc import Mapping\nfrom typing import Any\n\n{ours}"


def _filled(text: str, words: dict[str, str]) -> str:
    return Template(text).substitute(words)
