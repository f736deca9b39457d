"""A release gathers the fragments of its changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.changelog import gathered

OLD = "# Changelog\n\nWords.\n\n## 0.1.0\n\n- First.\n"


@pytest.fixture
def fragments(tmp_path: Path) -> list[Path]:
    for name, text in {"b.fixed": "Mends b.\n", "a.added": "Adds a,\nand more.\n", "c.added": "Adds c.\n"}.items():
        (tmp_path / f"{name}.md").write_text(text, "utf-8")
    return sorted(tmp_path.iterdir())


def test_a_new_section_stands_before_the_last(fragments: list[Path]) -> None:
    assert gathered(OLD, "0.2.0", fragments) == (
        "# Changelog\n\nWords.\n\n## 0.2.0\n\n### Added\n\n- Adds a,\n  and more.\n- Adds c.\n\n### Fixed\n\n- Mends b."
        "\n\n## 0.1.0\n\n- First.\n"
    )


def test_a_section_that_is_there_grows(fragments: list[Path]) -> None:
    assert (
        gathered(OLD, "0.1.0", fragments[1:2])
        == "# Changelog\n\nWords.\n\n## 0.1.0\n\n- First.\n\n### Fixed\n\n- Mends b.\n"
    )


def test_nothing_to_gather_changes_nothing() -> None:
    assert gathered(OLD, "0.1.0", []) == OLD


def test_the_first_section_of_all() -> None:
    assert gathered("# Changelog\n", "0.1.0", []) == "# Changelog\n\n## 0.1.0\n"
