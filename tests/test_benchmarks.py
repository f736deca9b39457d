"""One rule for all benchmarks: `--data`, `--limit` and `--json` are parsed in one place, used, and documented truly."""

from __future__ import annotations

import ast
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import common, hostile
from sluicegate.grammar import LazyGrammar, compile_regex

ROOT = Path(__file__).resolve().parent.parent
NO_BENCHMARKS = {
    "extraction_suite": "makes a suite for `sluicegate eval`",
    "gguf_files": "makes GGUF files",
    "lengths_plot": "draws",
    "pictures": "draws",
    "scale_plot": "draws",
    "idle_clients": "is a process of `clients`",
    "native_sides": "is a process of `native_peers`",
    "scale_node": "is a process of `scale`",
}
"""Programs of the folder that measure nothing by themselves."""
PARSERS = {"parser", "model_parser", "harness_parser"}
COMMON = {"--data", "--limit", "--json", "--help"}


def programs() -> dict[str, ast.Module]:
    """Return the modules that can be run, by name."""
    trees = {path.stem: ast.parse(path.read_text("utf-8")) for path in (ROOT / "benchmarks").glob("*.py")}
    return {name: tree for name, tree in trees.items() if "'__main__'" in ast.unparse(tree)}


PROGRAMS = programs()
BENCHMARKS = sorted(set(PROGRAMS) - set(NO_BENCHMARKS))


def calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield every call with the last part of the name that is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).rpartition(".")[2], node


def options(tree: ast.Module) -> set[str]:
    """Return the options that a program adds to the common ones."""
    found = {"--tokenizer"} if any(name == "add_tokenizer" for name, _ in calls(tree)) else set()
    for name, call in calls(tree):
        if name == "add_argument":
            found |= {arg.value for arg in call.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)}
    return found


def takes(call: ast.Call) -> str:
    """Return the attribute that holds what `--data` names; "" where it is refused."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == "model_parser":
        return "model"
    if name == "parser" and ast.unparse(call.args[1]) == "None" and all(word.arg != "form" for word in call.keywords):
        return ""
    return "data"


def test_what_is_no_benchmark_is_known() -> None:
    assert set(NO_BENCHMARKS) <= set(PROGRAMS)
    assert len(BENCHMARKS) > 50


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_takes_and_uses_the_common_options(name: str) -> None:
    """The options come from `benchmarks.common`, `limit` and `data` are read, and the object goes through `report`."""
    tree = PROGRAMS[name]
    made = [call for called, call in calls(tree) if called in PARSERS and call.args and name != "peers"]
    if name == "peers":
        made = [call for called, call in calls(tree) if called == "parser"]
    assert len(made) == 1, "makes its parser with benchmarks.common, once"
    assert not options(tree) & COMMON, "adds an option of all benchmarks itself"
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "limit" in read
    assert takes(made[0]) in {"", *read}, f"never reads .{takes(made[0])}"
    assert "json" not in {ast.unparse(node).rpartition(".")[2] for node in conditions(tree)}, "asks for --json itself"
    assert "report" in {called for called, _ in calls(tree)}


def conditions(tree: ast.Module) -> Iterator[ast.expr]:
    return (node.test for node in ast.walk(tree) if isinstance(node, ast.If | ast.IfExp))


COMMAND = re.compile(r"python -m benchmarks\.(\w+)([^`|>#\n]*)")
DOCUMENTS = [
    *(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"),
    *(ROOT / "benchmarks").glob("*.py"),
    ROOT / "benchmarks" / "README.md",
    ROOT / "README.md",
    ROOT / "Makefile",
]


def test_documented_options_exist() -> None:
    """Every option of a command in the documents is one of the program's. Decisions say what was run then."""
    wrong = []
    for path in DOCUMENTS:
        for name, rest in COMMAND.findall(path.read_text("utf-8")):
            known = (options(PROGRAMS[name]) | (COMMON if name in BENCHMARKS else set())) if name in PROGRAMS else set()
            known |= {"--model", "--models"} if name in BENCHMARKS else set()
            wrong += [f"{path.name}: {name} {one}" for one in re.findall(r"--[a-z][\w-]*", rest) if one not in known]
            wrong += [f"{path.name}: {name}"] * (name not in PROGRAMS and name != "NAME")
    assert not wrong


# --- the common part ----------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], parser: common.Parser, *arguments: str) -> str:
    """Return the one line with which a parser refuses `arguments`."""
    with pytest.raises(SystemExit) as ended:
        parser.parse_args(arguments)
    said = capsys.readouterr().err
    assert (ended.value.code, said.count("\n")) == (2, 1)
    return said


def test_a_file_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    said = refused(capsys, common.parser("", ROOT, 3, "schemas"), "--data", str(tmp_path / "none.jsonl"))
    assert str(tmp_path / "none.jsonl") in said
    assert "--data" in said
    assert str(tmp_path / "other") in refused(capsys, common.parser("", tmp_path / "other", 3, "schemas"))


def test_data_that_nothing_reads_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "leave --data out" in refused(capsys, common.parser("", None, 3, "rounds"), "--data", str(tmp_path))
    assert common.parser("", None, 3, "pairs", form="pairs").parse_args(["--data", str(tmp_path)]).data == tmp_path


def test_a_limit_of_0_is_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Of what has no end, all is as many as without the option."""
    assert common.parser("", ROOT, 3, "schemas").parse_args(["--limit", "0"]).limit == 0
    assert common.parser("", None, 3, "requests").parse_args(["--limit", "0"]).limit == 3
    assert common.parser("", None, 3, "requests").parse_args([]).limit == 3
    assert "-1 is no number" in refused(capsys, common.parser("", None, 3, "requests"), "--limit=-1")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b'{"schema": {}}\n{"schema"\n', "JSON"),
        (b'{"schema": {}}\n\n{"other": 1}\n', "line 3 has no 'schema'"),
        (b"[]\n", "line 1 has no 'schema'"),
        (b"\n", "holds no line"),
        (b"\xff\xfe", "decode"),
        (gzip.compress(b'{"schema": {}}\n', mtime=0)[:-9], "end-of-stream"),
    ],
)
def test_data_of_another_form_are_one_line(content: bytes, said: str, tmp_path: Path) -> None:
    path = tmp_path / ("data.jsonl.gz" if content[:2] == b"\x1f\x8b" else "data.jsonl")
    path.write_bytes(content)
    with pytest.raises(SystemExit) as ended:
        common.records(path, fields=("schema",))
    message = str(ended.value.code)
    assert said in message
    assert str(path) in message
    assert "--data" in message
    assert "\n" not in message


def test_what_is_no_number_is_null(capsys: pytest.CaptureFixture[str]) -> None:
    given = common.parser("", None, 3, "rounds").parse_args(["--json"])
    common.report(given, {"rate": float("nan"), "rows": [(1, float("inf"))], "by": {8: 0.5}})
    assert json.loads(capsys.readouterr().out) == {"rate": None, "rows": [[1, None]], "by": {"8": 0.5}}


# --- some programs for real ---------------------------------------------------------------------------------------


def ran(name: str, *arguments: str) -> dict[str, Any]:
    """Return the object in the last line of a program."""
    command = [sys.executable, "-m", f"benchmarks.{name}", "--json", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(found, dict)
    return found


def test_limits_make_programs_short() -> None:
    assert [row["runs"] for row in ran("rollouts", "--limit", "2", "--requests", "100")["rows"]] == [2] * 15
    assert {row["length"] for row in ran("holdback_proof", "--limit", "2")["sizes"]} == {2}
    assert len(ran("hostile", "--limit", "2")["cases"]) == 2
    assert ran("provenance", "--limit", "2")["delegated_passed"][1] == 2


def test_the_peak_of_a_hostile_case_is_its_own() -> None:
    """Not the highest of those before it."""

    def large() -> LazyGrammar:
        taken = np.ones(100 * 2**20, np.uint8)
        return compile_regex("a" * int(taken[0]), hostile.BYTES)

    before, after = hostile.measured(large), hostile.measured(lambda: compile_regex("a", hostile.BYTES))
    assert before["peak_mb"] >= 100
    assert after["peak_mb"] < 100
    assert (before["outcome"], after["outcome"]) == ("whole", "whole")


def test_programs_read_the_data_that_are_named(tmp_path: Path) -> None:
    schemas, pairs = tmp_path / "schemas.jsonl", tmp_path / "pairs.txt"
    schemas.write_text("".join(json.dumps({"schema": {"maxLength": n}}) + "\n" for n in range(5)))
    found = {limit: ran("schema_alarms", "--data", str(schemas), "--limit", limit) for limit in ("0", "2")}
    assert [found[limit]["harm"]["schemas"] for limit in ("0", "2")] == [5, 2]
    pairs.write_text("# reworded: same\nWhat is a tide? => Please explain what a tide is.\n")
    assert ran("sameness", "--data", str(pairs), "--limit", "9")["texts"] == 2
    languages = tmp_path / "languages.txt"
    languages.write_text("[de ordinary]\nWie spät ist es?\nWann ist Ostern?\n[ru attack]\nПривет\n", "utf-8")
    found = {limit: ran("languages", "--data", str(languages), "--limit", limit) for limit in ("0", "1")}
    assert [found[limit]["Latin letters, ordinary"]["texts"] for limit in ("0", "1")] == [2, 1]
