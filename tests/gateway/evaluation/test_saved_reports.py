"""Reports that `sluicegate eval --save` wrote are listed and shown to operators; whatever else lies there is not."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Job

HOSTILE = '<img src=x onerror="window.pwned=1">'


def said(job: Job) -> tuple[str, ...]:
    return ('{"town": "Oslo"}' if job.model == "good" else f'{{"town": "{HOSTILE.replace(chr(34), chr(39))}"}}',)


def evaluated(app: TestApp, folder: Path, suite: Path) -> None:
    variants = ("--variant", "old:model=bad", "--variant", "new:model=good")
    main(["eval", str(suite), "--url", app.url, "--json", "--save", str(folder), *variants])


def a_suite(folder: Path) -> Path:
    case = {"id": HOSTILE, "prompt": f"{HOSTILE} in Oslo", "expected": {"town": "Oslo"}, "checks": ["fields"]}
    path = folder / "towns.jsonl"
    path.write_text("\n".join(json.dumps({**case, "id": f"{HOSTILE}{n}"}) for n in range(6)))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "reports"
    made.mkdir()
    return made


def app_of(folder: Path | str) -> TestApp:
    settings = {"telemetry": {"evaluations": str(folder)}}
    return TestApp(script=said, names=("good", "bad"), settings=settings)


def test_what_eval_saves_is_listed_and_shown_with_every_case(folder: Path, tmp_path: Path, capsys: Any) -> None:
    with app_of(folder) as app:
        for _ in range(2):
            evaluated(app, folder, a_suite(tmp_path))
        told = app.client.get("/admin/evaluations").json()
        assert [one["error"] for one in told["data"]] == [None, None]
        assert len({one["name"] for one in told["data"]}) == 2
        line = told["data"][0]
        assert line["suite"] == "towns"
        assert line["comparison"]["better"] == 6
        whole = app.client.get(f"/admin/evaluations/{line['name']}").json()
        printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert whole["variants"]["new"]["quality"] == printed["variants"]["new"]["quality"]
    assert len(whole["results"]) == 12
    first = whole["results"][0]
    assert (first["variant"], first["case"], first["passed"]) == ("old", f"{HOSTILE}0", False)
    assert HOSTILE in first["prompt"]
    assert first["checks"][0]["check"] == "fields"


def test_files_that_are_no_reports_are_named_with_what_is_wrong(folder: Path, tmp_path: Path) -> None:
    (folder / "broken.json").write_text("{")
    (folder / "other.json").write_text('{"suite": "x"}')
    (folder / "wrong.json").write_text(json.dumps({"suite": 7, "when": "", "cases": "many", "variants": {}}))
    (folder / "huge.json").write_bytes(b" " * (32 * 1024**2 + 1))
    (folder / "notes.txt").write_text("secret")
    (tmp_path / "secret.json").write_text("{}")
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / ".hidden.json").write_text("{}")
    os.mkfifo(folder / "pipe.json")
    with app_of(folder) as app:
        told = app.client.get("/admin/evaluations").json()
        assert {one["name"] for one in told["data"]} == {"broken.json", "other.json", "wrong.json", "huge.json"}
        assert all(one["error"] for one in told["data"])
        for name in ("broken.json", "other.json", "wrong.json", "huge.json"):
            assert app.client.get(f"/admin/evaluations/{name}").json()["error"]["code"] == "no_report", name
        names = ("link.json", "notes.txt", "pipe.json", ".hidden.json", "none.json", "..%2Fsecret.json", "a%00.json")
        for name in names:
            assert app.client.get(f"/admin/evaluations/{name}").status_code == 404, name


def test_without_a_folder_there_is_nothing_and_a_missing_one_is_told(tmp_path: Path) -> None:
    with TestApp() as app:
        assert app.client.get("/admin/evaluations").json() == {"folder": None, "data": [], "left_out": 0}
        assert app.client.get("/admin/evaluations/x.json").json()["error"]["code"] == "no_evaluations"
    with app_of(tmp_path / "missing") as app:
        told = app.client.get("/admin/evaluations")
        assert told.status_code == 400
        assert "missing" in told.json()["error"]["message"]


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_asked(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with app_of(tmp_path) as app:
        suite = a_suite(tmp_path)
        assert main(["eval", str(suite), "--url", app.url, "--save", str(tmp_path / "file")]) == 2
        assert app.outcomes == []
