"""`sluicegate eval` against a real gateway: one version, two versions, a judge, and what its exit status says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job

TOWN = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
TOWNS = ("Oslo", "Graz", "Turku", "Leiden", "Lisbon", "Galway", "Bergen", "Aarhus")


def said(job: Job) -> Sequence[str]:
    """Answer by model: `good` copies the town, `bad` does so for every third; `judge` likes answers with a town, and
    says so in both orders; `first` likes what stands first."""
    prompt = job.prompt.text
    if job.model == "mute":
        return ("I would rather not say",)
    if job.model in ("judge", "first"):
        return (json.dumps(verdict(job.model, prompt)),)
    town = prompt.rpartition("live in ")[2].partition(".")[0]
    if job.model == "bad" and TOWNS.index(town) % 3:
        town = "nowhere"
    return (f'{{"town": "{town}"}}',)


def verdict(model: str, prompt: str) -> dict[str, Any]:
    answers = prompt.partition("nswer:\n")[2]
    if "Second answer" not in prompt:
        return {"reason": "because", "mark": 1 if "nowhere" in answers else 5}
    first, _, second = answers.partition("Second answer")
    if model == "first" or "nowhere" in second:
        return {"reason": "because", "better": "equal" if model == "judge" and "nowhere" in first else "first"}
    return {"reason": "because", "better": "second" if "nowhere" in first else "equal"}


@pytest.fixture(scope="module")
def app() -> Iterator[TestApp]:
    rail = {"phrases": ["project nightjar"], "action": "block"}
    with TestApp(
        script=said,
        names=("good", "bad", "judge", "first", "mute"),
        pipeline={"screen": ["blocklist"]},
        stages={"screen": {"blocklist": rail}},
    ) as made:
        yield made


def a_suite(folder: Path, *more: dict[str, Any], checks: Sequence[Any] = ("fields", "schema")) -> Path:
    rows = [
        {"id": town, "prompt": f"I live in {town}.", "schema": TOWN, "expected": {"town": town}, "checks": checks}
        for town in TOWNS
    ]
    path = folder / "towns.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in (*rows, *more)))
    return path


def ran(app: TestApp, capsys: Any, *arguments: Any) -> tuple[int, Any]:
    status = main(["eval", *map(str, arguments), "--url", app.url, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_one_version(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    attack = {"prompt": "about project nightjar", "checks": ["refused"], "tags": ["attack"]}
    alarm = {"prompt": "I live in Oslo. The nightjar is a bird", "checks": ["answered"]}
    path = a_suite(tmp_path, attack, alarm)
    status, report = ran(app, capsys, path, "--repeat", 2, "--html", tmp_path / "report.html", "--price", "1,2")
    figures = report["variants"]["gateway"]
    assert (status, report["cases"], figures["answers"], figures["errors"]) == (0, 10, 20, 0)
    assert figures["quality"]["value"] == figures["tags"]["attack"]["value"] == 1
    assert figures["quality"]["n"] == 10
    assert (figures["refused"]["value"], figures["missed"]["value"], figures["false_alarms"]["value"]) == (0.1, 0, 0)
    assert figures["cost"] > 0
    page = (tmp_path / "report.html").read_text()
    assert all(f"<summary>{town}" in page for town in TOWNS)


def test_a_worse_version_is_told_and_fails(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    path = a_suite(tmp_path)
    status, report = ran(app, capsys, path, "--variant", "old:model=good", "--variant", "new:model=bad")
    compared = report["comparison"]
    assert (compared["worse"], compared["better"]) == (5, 0)
    assert set(compared["worse_cases"]) == {town for i, town in enumerate(TOWNS) if i % 3}
    assert compared["difference"]["value"] < 0
    assert status == int(compared["p"] < 0.05)
    status, _ = ran(app, capsys, path, "--variant", "new:model=bad", "--variant", "old:model=good")
    assert status == 0


def test_the_shape_of_a_version_without_masks_is_told(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    status, report = ran(app, capsys, a_suite(tmp_path), "--variant", "p:schema=none,plain=yes", "--at-least", 0.9)
    assert status == 0
    assert report["variants"]["p"]["valid_json"]["value"] == 1


@pytest.mark.parametrize(("name", "wins"), [("judge", 5), ("first", 0)])
def test_a_judge_is_judged_first_and_its_liking_for_a_place_does_not_count(
    app: TestApp, tmp_path: Path, capsys: Any, name: str, wins: int
) -> None:
    marked = [
        {"id": f"m{i}", "prompt": "I live in Oslo.", "expected": answer, "human": mark}
        for i, (answer, mark) in enumerate([("in Oslo", 1), ("nowhere", 0), ("nowhere", 0), ("nowhere", 1)])
    ]
    path = a_suite(tmp_path, *marked, checks=[{"type": "judge", "rubric": "names the town"}])
    two = ("--variant", "old:model=good", "--variant", "new:model=bad")
    _, report = ran(app, capsys, path, *two, "--judge", name)
    agreement = report["judge_agreement"]
    assert (agreement["n"], agreement["equal"], report["cases"]) == (4, 0.75, 8)
    assert agreement["kappa"] == pytest.approx(0.5)
    assert report["variants"]["old"]["checks"]["judge"]["value"] == 1
    preferred = report["comparison"]["preferences"]
    assert (preferred["left"], preferred["right"], preferred["pairs"]) == (wins, 0, 8)


def test_an_unmeasured_judge_is_said_to_be_so(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    _, report = ran(app, capsys, a_suite(tmp_path, checks=["judge"]), "--judge", "judge")
    assert "not measured" in report["notes"][0]


def test_a_judge_that_says_nothing_fails_the_run_and_no_case(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    path = a_suite(tmp_path, checks=["fields", {"type": "judge"}])
    status, report = ran(app, capsys, path, "--judge", "mute", "--html", tmp_path / "report.html", "--save", tmp_path)
    figures = report["variants"]["gateway"]
    assert (status, figures["errors"], figures["unjudged"], figures["quality"]) == (1, 8, 8, None)
    saved = json.loads(next(tmp_path.glob("towns-*.json")).read_text())
    for told in (saved["results"][0]["error"], (tmp_path / "report.html").read_text()):
        assert "the judge could not be asked" in told


def test_how_far_a_judge_agrees_stands_before_what_it_says(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    marked = {"id": "m", "prompt": "I live in Oslo.", "expected": "in Oslo", "human": 1}
    path = a_suite(tmp_path, marked, checks=["judge"])
    assert main(["eval", str(path), "--url", app.url, "--model", "good", "--judge", "judge"]) == 0
    told = capsys.readouterr().out
    assert 0 <= told.index("judge and people: ") < told.index("check judge")


def test_what_makes_a_run_fail_is_said_in_words(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    lost = {"id": "lost", "prompt": "x", "expected": "x", "request": {"model": "nobody"}}
    path = a_suite(tmp_path, lost)
    assert main(["eval", str(path), "--url", app.url, "--model", "bad", "--at-least", "0.9"]) == 1
    told = capsys.readouterr().err
    assert "sluicegate: bad: 1 of 9 could not be asked; the first: " in told
    assert "has to be 90.0% at least (--at-least)" in told


def test_people_that_nobody_is_compared_with_are_told(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    marked = {"id": "m", "prompt": "I live in Oslo.", "expected": "in Oslo", "human": 1}
    _, report = ran(app, capsys, a_suite(tmp_path, marked))
    assert "1 cases with `human` were not used" in report["notes"][0]


def test_what_could_not_be_asked_is_no_answer(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    lost = {"id": "lost", "prompt": "x", "expected": "x", "request": {"model": "nobody"}}
    status, report = ran(app, capsys, a_suite(tmp_path, lost), "--model", "good")
    figures = report["variants"]["good"]
    assert (status, figures["errors"], figures["answers"], figures["quality"]["value"]) == (1, 1, 8, 1)


@pytest.mark.parametrize(
    "arguments",
    [["--request", "{"], ["--price", "1"], ["--variant", "a", "--variant", "a"], ["--variant", "a:x=1"],
     ["--url", "http://127.0.0.1:9"], ["--form", "promptfoo"]],
)  # fmt: skip
def test_a_mistake_is_one_line(app: TestApp, tmp_path: Path, capsys: Any, arguments: list[str]) -> None:
    assert main(["eval", str(a_suite(tmp_path)), "--url", app.url, *arguments]) == 2
    told = capsys.readouterr().err
    assert told.startswith("sluicegate: ")
    assert told.count("\n") == 1


def test_a_judge_that_nobody_named_is_asked_for(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    assert main(["eval", str(a_suite(tmp_path, checks=["judge"])), "--url", app.url]) == 2
    assert "--judge" in capsys.readouterr().err


def test_the_table_tells_what_a_person_wants_to_know(app: TestApp, tmp_path: Path, capsys: Any) -> None:
    two = ("--variant", "old:model=good", "--variant", "new:model=bad")
    main(["eval", str(a_suite(tmp_path)), "--url", app.url, *two])
    told = capsys.readouterr().out
    for part in ("old: 8 answers", "new: 8 answers", "quality", "valid json", "new - old", "p = ", "5 worse"):
        assert part in told
