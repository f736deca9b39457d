"""The console's modules fit each other: without a build, a name that nobody imported shows only where it is used."""

from __future__ import annotations

import re

import pytest

from sluicegate.gateway.admin.console import STATIC

MODULES = {path.relative_to(STATIC).as_posix(): path.read_text("utf-8") for path in sorted(STATIC.rglob("*.js"))}
EXPORT = re.compile(r"^export (?:async )?(?:function\*?|const|class) (\w+)", re.MULTILINE)
IMPORT = re.compile(r"^import \{([^}]+)\} from \"([^\"]+)\";", re.MULTILINE)
EXPORTS = {name: set(EXPORT.findall(text)) for name, text in MODULES.items()}
WORDS = re.compile(r"//[^\n]*|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
"""Comments and texts, in which nothing is called."""
DECLARED = re.compile(r"(?:function\*?|const|let|class) (\w+)")
TAKEN = re.compile(r"\{[^{}]*\}(?= = |\)|, )|\([^()]*\) =>")
"""Parameters, and names that are taken out of an object."""


def imported(text: str) -> dict[str, str]:
    """Name to the module that it is imported from."""
    return {name.strip(): source for names, source in IMPORT.findall(text) for name in names.split(",")}


def own(text: str) -> set[str]:
    return {*DECLARED.findall(text), *(name for taken in TAKEN.findall(text) for name in re.findall(r"\w+", taken))}


@pytest.mark.parametrize("module", MODULES)
def test_every_helper_that_a_module_calls_is_its_own_or_imported(module: str) -> None:
    text = MODULES[module]
    called = set(re.findall(r"(?<![\w.$])(\w+)\(", WORDS.sub("''", text)))
    helpers = set().union(*EXPORTS.values()) - {"page"}
    assert (called & helpers) - own(text) - set(imported(text)) == set()


@pytest.mark.parametrize("module", MODULES)
def test_every_import_is_there_and_is_used(module: str) -> None:
    text = MODULES[module]
    for name, source in imported(text).items():
        found = ((STATIC / module).parent / source).resolve().relative_to(STATIC.resolve()).as_posix()
        assert name in EXPORTS[found], f"{found} exports no {name}"
        assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{name} is imported and not used"
