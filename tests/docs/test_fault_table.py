"""The table of faults in `docs/scale.md`: each fault that is tried stands in it, and shows what the page promises."""

from __future__ import annotations

from pathlib import Path

from tests.scale.faults import FAULTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "scale.md"


def rows() -> dict[str, dict[str, str]]:
    text = PAGE.read_text("utf-8").split("<!-- faults -->\n")[1].split("\n<!-- end of faults -->")[0]
    head, _, *lines = [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in text.splitlines()]
    return {line[0]: dict(zip(head, line, strict=True)) for line in lines}


def test_every_fault_that_is_tried_stands_in_the_table() -> None:
    assert list(rows()) == list(FAULTS)


def test_nothing_was_lost_and_nothing_charged_twice() -> None:
    for name, row in rows().items():
        assert (row["lost"], row["charged twice"]) == ("0", "0"), name
        assert int(row["answers"]) > 0
        assert int(row["charged"]) >= int(row["answers"]), name
        assert row["lines of a batch, asked again"].startswith("32, "), name
