"""`sluicegate probe train` and `probe evaluate`, as an operator types them, on a model made here."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest

from sluicegate.engine.construction import load
from sluicegate.engine.settings import ModelSettings
from sluicegate.gateway.commands import cli
from tests.engine.tiny_models import save_tiny

CALM = ("the sea", "a mill", "an inn", "the hay", "a lane")
GRAVE = ("ZEQ 77", "XQ 90!", "QZX 7Q", "Z0Q XX")


def answers(words: tuple[str, ...], label: str, count: int, source: str, seed: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    return [
        {"prompt": f"case {at}", "text": " ".join(chance.choices(words, k=4)) + ".", "label": label, "source": source}
        for at in range(count)
    ]


def rows(seed: int = 0) -> list[dict[str, Any]]:
    """Make rows of two sources of answers, half of each bad, and two rows with a label that says neither."""
    found = [
        row
        for source in ("north", "south")
        for words, label in ((CALM, "safe"), (GRAVE, "unsafe"))
        for row in answers(words, label, 12, source, seed)
    ]
    return [*found, *answers(CALM, "borderline", 2, "north", seed)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("model"), "llama")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows()), encoding="utf-8")
    return path


def typed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Return status, stdout and stderr of a command."""
    try:
        status = cli.main([str(argument) for argument in arguments])
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else 1
    said = capsys.readouterr()
    return status or 0, said.out, said.err


@pytest.mark.parametrize("hidden", [0, 4])
def test_a_probe_that_is_trained_is_served_and_evaluated_as_it_is(
    hidden: int, model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "probe"
    common = ("--unit-chars", 20, "--json")
    status, said, complaint = typed(
        capsys, "probe", "train", model, data, "--out", out, "--name", "grave", "--hidden", hidden, *common
    )
    assert status == 0, complaint
    assert "2 rows have another label" in complaint
    card = json.loads(said)
    assert (card["rows"], card["bad"], card["label"], card["sources"]) == (48, 24, "grave", ["north", "south"])
    assert card["auc"] > 0.95
    assert len(card["layers"]) == 1
    assert card["auc_by_layer"][str(card["layers"][0])] == max(card["auc_by_layer"].values())

    served = load(ModelSettings(str(model), probes=(str(out),)))
    assert served.probes is not None
    assert list(served.probes.labels) == ["grave"]

    other = tmp_path / "other.jsonl.gz"
    with gzip.open(other, "wt", encoding="utf-8") as file:
        file.write("".join(f"{json.dumps(row)}\n" for row in rows(seed=1)))
    status, said, complaint = typed(capsys, "probe", "evaluate", model, other, "--probe", out, *common)
    assert status == 0, complaint
    report = json.loads(said)
    assert (report["cut"], report["layers"]) == ("as trained", card["layers"])
    assert report["judges"]["probe"]["auc"][0] > 0.95
    assert set(report["judges"]) == {"probe", "harm (text classifier)"}
    assert report["judges"]["probe"]["rang"]["north: bad"][0] == 12


def test_without_a_probe_whole_sources_are_left_out(
    model: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, said, complaint = typed(capsys, "probe", "evaluate", model, data, "--layers", "1,2", "--unit-chars", 20)
    assert status == 0, complaint
    assert "whole sources left out" in said
    assert "layers [1, 2]" in said
    for column in ("recall at 1 % false alarms", "harm (text classifier): rings on", "south: harmless"):
        assert column in said


@pytest.mark.parametrize(
    ("bad", "calm", "expected"),
    [
        (("north",), ("south",), "fifths left out, by prompt: without a source only one class"),
        (("north", "east"), ("south",), "whole sources left out; of south fifths, by prompt"),
        (("north",), ("north",), "fifths left out, by prompt"),
        (("north", "east"), ("south", "west"), "whole sources left out"),
    ],
)
def test_no_row_is_scored_by_a_probe_that_saw_it(
    bad: tuple[str, ...],
    calm: tuple[str, ...],
    expected: str,
    model: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also where a source holds all rows of a label. Nothing tells these rows apart, but a probe that saw them."""
    labels = [*((source, "unsafe") for source in bad), *((source, "safe") for source in calm)]
    made = [row for at, (source, label) in enumerate(labels) for row in answers(CALM, label, 40, source, at)]
    for at, row in enumerate(made):
        row["prompt"] = f"case {at}"
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in made), encoding="utf-8")
    status, said, complaint = typed(capsys, "probe", "evaluate", model, path, "--layers", "1,2,3", "--json")
    assert status == 0, complaint
    report = json.loads(said)
    assert report["cut"].startswith(expected)
    assert (report["cut"] == "whole sources left out") == (len(calm) == 2)
    assert report["judges"]["probe"]["auc"][0] < 0.65


def _lines(*lines: str) -> str:
    return "\n".join(lines)


BAD_ROW = json.dumps(answers(GRAVE, "unsafe", 1, "north", 0)[0])


@pytest.mark.parametrize(
    ("content", "more", "expected"),
    [
        (_lines(BAD_ROW), (), "none of them harmless"),
        (_lines(BAD_ROW, "[]"), (), "line 2"),
        (_lines(BAD_ROW, "", "[]"), (), "line 3"),
        (_lines(BAD_ROW, "[" * 100_000), (), "line 2"),
        (_lines(BAD_ROW, '{"text": 3, "label": "safe"}'), (), "are strings"),
        (_lines(BAD_ROW, BAD_ROW.replace("unsafe", "safe")), ("--layers", "0"), "expected numbers from 1 to 3"),
        (_lines(BAD_ROW, BAD_ROW.replace("unsafe", "safe")), ("--layers", "two"), "expected numbers from 1 to 3"),
        (_lines(BAD_ROW, BAD_ROW.replace("unsafe", "safe")), ("--hidden", "-1"), "--hidden is 0 or more"),
    ],
)
def test_a_mistake_is_one_line_that_names_it_and_writes_nothing(
    content: str, more: tuple[str, ...], expected: str, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text(content, encoding="utf-8")
    out = tmp_path / "probe"
    status, _, complaint = typed(capsys, "probe", "train", model, path, "--out", out, *more)
    assert status != 0
    assert expected in complaint
    assert "Traceback" not in complaint
    assert not out.exists()


def test_damaged_answers_are_refused_by_the_name_of_their_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "answers.jsonl.gz"
    path.write_bytes(gzip.compress(b"x")[:10] + b"\xff" * 20)  # a head, and no block of any type behind it
    status, _, complaint = typed(capsys, "probe", "train", model, path, "--out", tmp_path / "probe")
    assert status != 0
    assert f"cannot read {path}" in complaint


def test_a_probe_of_another_model_is_refused(
    model: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "probe"
    assert typed(capsys, "probe", "train", model, data, "--out", out, "--layers", "1")[0] == 0
    other = save_tiny(tmp_path / "other", "llama", 1)
    status, _, complaint = typed(capsys, "probe", "evaluate", other, data, "--probe", out)
    assert status != 0
    assert "model" in complaint
