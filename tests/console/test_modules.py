"""The console's modules fit each other: without a build, a name that nobody imported shows only where it is used."""

from __future__ import annotations

import re

import pytest

from sluicegate.gateway.admin.console import STATIC

MODULES = {path.relative_to(STATIC).as_posix(): path.read_text("utf-8") for path in sorted(STATIC.rglob("*.js"))}
EXPORT = re.compile(r"^export (?:async )?(?:function\*?|const|class) (\w+)", re.MULTILINE)
IMPORT = re.compile(r"^import \{([^}]+)\} from \"([^\"]+)\";", re.MULTILINE)
LEADS = re.compile(r"(?:^import \{[^}]+\} from |\bimport\()\"([^\"]+)\"", re.MULTILINE)
EXPORTS = {name: set(EXPORT.findall(text)) for name, text in MODULES.items()}
WORDS = re.compile(r"//[^\n]*|\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
"""Comments and texts, in which nothing is called."""
DECLARED = re.compile(r"(?:function\*?|const|let|class) (\w+)")
TAKEN = re.compile(r"\{[^{}]*\}(?= = |\)|, )|\([^()]*\) =>")
"""Parameters, and names that are taken out of an object."""


def imported(text: str) -> dict[str, str]:
    """Name to the module that it is imported from."""
    return {name.strip(): source for names, source in IMPORT.findall(text) for name in names.split(",")}


def found_from(module: str, source: str) -> str:
    """Return the module that `source` names in `module`."""
    return ((STATIC / module).parent / source).resolve().relative_to(STATIC.resolve()).as_posix()


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
        found = found_from(module, source)
        assert name in EXPORTS[found], f"{found} exports no {name}"
        assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{name} is imported and not used"


def test_no_module_leads_back_to_itself() -> None:
    """A page that is fetched when it is opened counts as well: it may not need what opens pages."""
    leads = {module: set(LEADS.findall(text)) for module, text in MODULES.items()}
    further = {module: {found_from(module, source) for source in sources} for module, sources in leads.items()}
    while further:
        ends = {module for module, sources in further.items() if not sources & set(further)}
        assert ends, f"a circle within {sorted(further)}"
        further = {module: sources for module, sources in further.items() if module not in ends}
