"""`sluicegate mask`: one command that says why a mask takes as long as it does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.grammar import is_compiled

SCHEMA = '{"type":"array","uniqueItems":true,"items":{"enum":["a","b"]}}'


def test_each_token_has_a_mask_its_size_and_what_it_cost(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", SCHEMA, '["a","b"]', "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    steps = found["steps"]
    assert "".join(step["token"] for step in steps) == '["a","b"]'
    assert all(step["readings"] >= 1 and step["allowed"] >= 1 and step["mask_us"] >= 0 for step in steps)
    parts = {part for step in steps for part in step["parts_us"]}
    assert {"frames", "tries", "guards"} <= parts or is_compiled()
    assert max(sum(step["parts_us"].values()) for step in steps) > 0


def test_a_refused_token_is_named_and_is_no_success(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(SCHEMA)
    (tmp_path / "answer.json").write_text('["a","a"]')
    assert main(["mask", str(tmp_path / "schema.json"), f"@{tmp_path / 'answer.json'}"]) == 1
    out = capsys.readouterr().out
    assert "readings" in out.splitlines()[0]
    assert "is refused after" in out.splitlines()[-1]


def test_a_second_time_much_is_remembered(capsys: pytest.CaptureFixture[str]) -> None:
    """What the first way through made is shared: the second makes fewer objects."""
    made = []
    for again in ([], ["--again"]):
        assert main(["mask", "[ab]{3}x?", "abab"[:3], "--kind", "regex", "--json", *again]) == 0
        made.append(sum(step["made"] for step in json.loads(capsys.readouterr().out)["steps"]))
    assert made[1] < made[0]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (['{"type": "nothing"}', "x"], "type must be one"),
        ([SCHEMA, "@/no/such/file"], "cannot read /no/such/file"),
        ([SCHEMA, "x", "--tokenizer", "/no/such/folder"], "cannot read the tokenizer"),
    ],
)
def test_a_mistake_is_one_line(arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mask", *arguments]) == 2
    assert expected in capsys.readouterr().err
