"""docs/plugins.md can be followed word by word, and nothing public is missing from it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pytest

import sluicegate.plugins.testing
from sluicegate import plugins
from sluicegate.plugins.testing.faults import FaultKind
from tests.plugins.conftest import ROOT, Workplace

TEXT = (ROOT / "docs" / "plugins.md").read_text("utf-8")
FENCED = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    language: str
    title: str
    code: str


BLOCKS = [Block(*found) for found in FENCED.findall(TEXT)]
SNIPPETS = [block for block in BLOCKS if block.language == "python" and not block.title]


@pytest.mark.parametrize("slot", plugins.SLOTS)
def test_every_slot_has_its_row(slot: str) -> None:
    """What fills it, when it is called, and what happens when it breaks."""
    assert re.search(rf"^\| `{slot}` \|(?: [^|]+ \|){{5}}$", TEXT, re.M), f"docs/plugins.md has no row for slot {slot}"


@pytest.mark.parametrize("name", [*plugins.__all__, *sluicegate.plugins.testing.__all__])
def test_every_public_name_is_documented(name: str) -> None:
    """A name that nobody explains is not part of a contract."""
    assert re.search(rf"`{name}\b", TEXT), f"docs/plugins.md does not mention `{name}`"


@pytest.mark.parametrize("kind", get_args(FaultKind))
def test_every_kind_of_fault_is_explained(kind: str) -> None:
    """An author who meets it can look it up."""
    assert re.search(rf"^\| `{kind}` \| [`\w]", TEXT, re.M), f"docs/plugins.md does not explain the fault {kind!r}"


@pytest.mark.parametrize("field", plugins.RailProperties.__dataclass_fields__)
def test_every_property_of_a_rail_is_explained(field: str) -> None:
    """With its default."""
    assert re.search(rf"^\| `{field}` \| [^|]+ \| [^|]+ \|$", TEXT, re.M)


@pytest.mark.parametrize("block", SNIPPETS, ids=[f"snippet {i}" for i in range(len(SNIPPETS))])
def test_every_snippet_runs(block: Block) -> None:
    """Its own assertions say what it shows."""
    exec(compile(block.code, "docs/plugins.md", "exec", dont_inherit=True), {"__name__": "snippet"})


def test_followed_word_by_word_it_gives_a_working_plugin(workplace: Workplace) -> None:
    """In an empty folder, each command as it is printed, each file as it is shown, until `check` says ok."""
    place, said = workplace.folder, ""
    for block in BLOCKS:
        if block.title:
            (place / block.title).write_text(block.code, "utf-8")
        elif block.language == "bash":
            done = workplace.run(f"{block.code}\npwd", place)
            assert done.returncode == 0, f"{block.code}\n{done.stdout}{done.stderr}"
            *lines, last = done.stdout.splitlines()
            place, said = Path(last), "\n".join(lines)
    printed = next(line.strip() for line in TEXT.splitlines() if line.startswith("    moderate   ticket-numbers"))
    assert said == printed
