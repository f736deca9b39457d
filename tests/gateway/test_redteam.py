"""`sluicegate redteam`: what a running gateway catches, and what it should not have."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.commands.redteam import RedteamRow, Result, rows_of, summary
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError

ROWS = [
    {"text": "about project nightjar", "label": "attack", "category": "phrases"},
    {"text": "about project sparrow", "label": "attack", "category": "phrases"},
    {"text": "a question of taste", "label": "benign", "category": "talk"},
    {"text": "the nightjar is a bird", "label": "safe", "category": "birds"},
    {"text": "neither", "label": "borderline", "category": "left out"},
]


@pytest.fixture(scope="module")
def app() -> Iterator[TestApp]:
    rail = {"phrases": ["project nightjar", "delicate"], "action": "block"}
    with TestApp(pipeline={"screen": ["blocklist"]}, stages={"screen": {"blocklist": rail}}) as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, ROWS)))
    return path


def ran(capsys: Any, *arguments: str) -> tuple[int, Any]:
    status = main(["redteam", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("via", ["chat", "moderations"])
def test_recall_and_false_positives_are_told_by_category(app: TestApp, file: Path, via: str, capsys: Any) -> None:
    status, report = ran(capsys, str(file), "--url", app.url, "--via", via)
    assert status == 0
    assert (report["recall"]["caught"], report["recall"]["rows"], report["recall"]["share"]) == (1, 2, 0.5)
    assert report["false_positive_rate"]["share"] == 0.0
    assert [(row["category"], row["rows"]) for row in report["categories"]] == [
        ("birds", 1),
        ("phrases", 2),
        ("talk", 1),
    ]
    assert set(report["latency_ms"]) == {"p50", "p95", "p99"}


def test_the_table_has_a_line_for_each_category(app: TestApp, file: Path, capsys: Any) -> None:
    assert main(["redteam", str(file), "--url", app.url]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["category", "birds", "phrases", "talk", "all", "all", "latency"]


def test_what_was_reported_wrong_becomes_a_set(app: TestApp, capsys: Any) -> None:
    app.client.post("/v1/safety/false_positives", json={"text": "a delicate matter", "rail": "blocklist"})
    status, report = ran(capsys, "--regressions", "--url", app.url)
    assert status == 0
    assert report["categories"][0]["category"] == "reported blocklist"
    assert report["false_positive_rate"]["caught"] == 1


def test_a_gateway_that_cannot_be_asked_is_no_success(app: TestApp, file: Path, capsys: Any) -> None:
    assert main(["redteam", str(file), "--url", "http://127.0.0.1:9"]) == 2
    status, report = ran(capsys, str(file), "--url", app.url, "--model", "no-such-model")
    assert (status, report["not_asked"], report["recall"]["caught"]) == (1, 3, 1), "screened before it is routed"


def test_a_line_that_is_no_row_is_named(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": "attack"}\n{"text": "b"}\n')
    assert main(["redteam", str(path)]) == 2
    assert "line 2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ('{"text": null, "label": "attack"}', "`text` is None"),
        ('{"text": " ", "label": "attack"}', "`text` is ' '"),
        ('{"text": ["a"], "label": "attack"}', "`text` is ['a']"),
        ('{"text": "a", "label": null}', "`label` is None"),
        ('{"text": "a", "label": "attack", "category": {"b": 1}}', "`category` is {'b': 1}"),
        ('["text", "label"]', "found list"),
        ('{"text": "a", "lab', "found no JSON"),
        ("[" * 100_000, "found no JSON"),
    ],
    ids=lambda one: one[:30],
)
def test_a_field_that_is_no_text_is_not_made_one(row: str, message: str, tmp_path: Path) -> None:
    """A report of nothing would teach a head the word `None`. Lines are counted as an editor counts them."""
    path = tmp_path / "rows.jsonl"
    path.write_text('{"text": "a", "label": "attack"}\n\n' + row + "\n")
    with pytest.raises(ConfigurationError) as refused:
        list(rows_of(path))
    assert "rows.jsonl, line 3: " in refused.value.message
    assert message in refused.value.message


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.gz"
    whole = gzip.compress(b'{"text": "a", "label": "attack"}\n' * 50)
    path.write_bytes(whole[:10] + b"\x07" + whole[11:])
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl\.gz"):
        list(rows_of(path))


def test_numbers_are_labels_and_what_is_left_out_is_named(tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "rows.jsonl"
    labels = ("1", "0", "true", "false", '"perhaps"', '"pii"')
    path.write_text("".join(f'{{"text": "a", "label": {label}}}\n' for label in labels))
    assert [row.harmful for row in rows_of(path)] == [True, False, True, False]
    assert "2 rows left out, the first in line 5: label 'perhaps'" in capsys.readouterr().err


def test_intervals_are_wilsons() -> None:
    """Of 10 with 1 caught: 1.8 % to 40.4 % (a known value)."""
    report = summary([Result(RedteamRow("a", True, "c"), i == 0, 0.1) for i in range(10)])
    assert (round(report["recall"]["low"], 3), round(report["recall"]["high"], 3)) == (0.018, 0.404)
