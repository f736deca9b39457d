"""What a suite says and nobody reads is refused before anything is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.commands.eval.cases import Case, suite_of
from sluicegate.gateway.commands.eval.checks import CHECKS
from sluicegate.gateway.commands.eval.options import OPTIONS, check_options
from sluicegate.plugins import ConfigurationError

VALUES: dict[str, Any] = {"number": 1, "tool_calls": [], "json": {"a": 1}, "fields": {"a": 1}}


def a_check(name: str) -> dict[str, Any]:
    own: dict[str, dict[str, Any]] = {"regex": {"pattern": "x"}, "schema": {"schema": True}}
    more = own.get(name, {})
    return {"type": name, **more, **({"value": VALUES.get(name, "x")} if "value" in OPTIONS[name] else {})}


def a_case(check: dict[str, Any]) -> Case:
    return Case("one", ({"role": "user", "content": "?"},), (check,))


def test_every_check_has_its_options() -> None:
    assert set(OPTIONS) == {*CHECKS, "judge"}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_an_option_that_a_check_does_not_take_is_refused(name: str) -> None:
    check_options(a_case(a_check(name)))
    known = set().union(*OPTIONS.values())
    for option in ({"threshold", "values", "at_lest"} | known) - OPTIONS[name]:
        with pytest.raises(ConfigurationError, match=f"no '{option}'"):
            check_options(a_case({**a_check(name), option: "x"}))


@pytest.mark.parametrize(
    "check",
    [
        {"type": "exact", "value": "x", "at_least": "0.5"},
        {"type": "exact", "value": "x", "at_least": 75},
        {"type": "exact", "value": {"a": 1}},
        {"type": "exact", "value": []},
        {"type": "exact", "value": "x", "ignore_case": "false"},
        {"type": "exact", "value": "x", "extract": "("},
        {"type": "exact", "value": "x", "ignore": "abc"},
        {"type": "contains", "value": []},
        {"type": "not_contains", "value": None},
        {"type": "number", "value": "12"},
        {"type": "number", "value": 1, "tolerance": "1"},
        {"type": "number", "value": True},
        {"type": "rouge", "value": "x", "variant": "rouge-l"},
        {"type": "tool_calls", "value": {"name": "f"}},
        {"type": "tool_calls", "value": [{"function": "f"}]},
        {"type": "tool_calls", "value": [{"name": "f", "args": {}}]},
        {"type": "judge", "rubric": ""},
    ],
)
def test_a_value_that_a_check_cannot_use_is_refused(check: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="case one"):
        check_options(a_case(check))


GOOD = {"prompt": "x", "expected": "y"}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("s.toml", "[suite]\ntitle = 'x'", "'title'"),
        ("s.toml", "[judge]\nmodle = 'x'", "'modle'"),
        ("s.toml", "[judge]\nrequest = 'x'", "`request`"),
        ("s.toml", "suite = 'x'", "expected a table"),
        ("s.toml", "[defaults]\nmax_token = 5", "'max_token'"),
        ("s.toml", "[case]\nprompt = 'x'", "[[case]]"),
        ("s.toml", "[[case]]\nprompt = 'x'\nexpected = 2026-03-14", "dates stand in quotes"),
        ("s.jsonl", json.dumps({**GOOD, "tags": "attack"}), "`tags` must be a list"),
        ("s.jsonl", json.dumps({**GOOD, "tools": {}}), "`tools`"),
        ("s.jsonl", json.dumps({**GOOD, "schema": "{}"}), "`schema`"),
        ("s.jsonl", json.dumps({**GOOD, "checks": "exact"}), "`checks`"),
        ("s.jsonl", json.dumps({**GOOD, "request": [1]}), "`request`"),
        ("s.jsonl", json.dumps({**GOOD, "max_tokens": True}), "`max_tokens`"),
        ("s.jsonl", '{"prompt": "x", "expected": NaN}', "NaN"),
        ("s.jsonl", '{"prompt": "x", "expected": "y", "expected": "z"}', "stands twice"),
        ("s.jsonl", json.dumps({"prompt": "x", "human": 1}), "no `expected`"),
    ],
)
def test_a_field_that_says_nothing_to_anybody_is_refused(tmp_path: Path, name: str, text: str, told: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigurationError) as refused:
        suite_of(tmp_path / name)
    assert told in refused.value.message


def test_a_line_ends_with_a_line_feed_alone(tmp_path: Path) -> None:
    text = "a\u2028b\u0085c"
    rows = [{"prompt": text, "expected": "y"}, GOOD]
    lines = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    (tmp_path / "s.jsonl").write_bytes(b"\xef\xbb\xbf" + lines.encode())
    assert [case.messages[0]["content"] for case in suite_of(tmp_path / "s.jsonl").cases] == [text, "x"]


@pytest.mark.parametrize(
    "arguments",
    [["--repeat", "0"], ["--parallel", "0"], ["--limit", "-1"], ["--timeout", "0"], ["--timeout", "nan"],
     ["--at-least", "90"], ["--request", "[]"], ["--price", "nan,1"], ["--html", "/nowhere/at/all.html"]],
)  # fmt: skip
def test_arguments_that_would_be_taken_otherwise_are_refused(tmp_path: Path, capsys: Any, arguments: list[str]) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps(GOOD))
    try:
        status: object = main(["eval", str(path), "--url", "http://127.0.0.1:9", "--model", "m", *arguments])
    except SystemExit as ended:  # the parser's own way out
        status = ended.code
    assert status == 2
    assert arguments[0] in capsys.readouterr().err
