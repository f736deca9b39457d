"""Cases in the form of the Berkeley Function-Calling Leaderboard: a question, functions and the right calls."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.eval.cases import Suite, cases_of, json_of, lines_of, text_of
from sluicegate.gateway.commands.eval.reading import only
from sluicegate.plugins import ConfigurationError

_FIELDS = frozenset(("id", "question", "function", "ground_truth"))
_NAMES: Mapping[str, str | None] = {
    "dict": "object", "float": "number", "double": "number", "long": "integer", "tuple": "array", "list": "array",
    "int": "integer", "str": "string", "bool": "boolean", "any": None,
}  # fmt: skip
"""Python's type names -> JSON Schema's; None allows any value."""
_TYPES = frozenset(("object", "number", "integer", "array", "string", "boolean", "null"))
NOTE = "texts in arguments are compared as they stand; BFCL's own runner leaves case, blanks and punctuation out"


def bfcl(path: Path) -> Suite:
    """Read a suite of BFCL: rows of `id`, `question` (turns of messages) and `function`. Right calls are in
    `ground_truth` of the row, or of the row of the same id in `possible_answer/` beside the file. A row named
    `irrelevance` wants no call."""
    rows = [json_of(line, where) for where, line in lines_of(text_of(path), path)]
    beside = path.parent / "possible_answer" / path.name
    answers: dict[Any, Any] = {}
    if beside.is_file():
        told = [json_of(line, where) for where, line in lines_of(text_of(beside), beside)]
        answers = {row["id"]: row["ground_truth"] for row in told}
    made = [_row(row, answers, f"{path}, case {n}") for n, row in enumerate(rows, 1)]
    return Suite(path.stem, tuple(cases_of(made, path)), notes=(NOTE,))


def _row(row: Any, answers: Mapping[Any, Any], where: str) -> dict[str, Any]:
    only(row, _FIELDS, where)
    name, turns = str(row.get("id")), row.get("question") or []
    truth = row.get("ground_truth", answers.get(row.get("id"), [] if "irrelevance" in name else None))
    if truth is None or not turns or "function" not in row:
        raise ConfigurationError(
            f"{where}: needs `id`, `question`, `function`, and `ground_truth` in the row or in possible_answer/"
        )
    if isinstance(turns, list) and len(turns) > 1 and isinstance(turns[0], list):
        raise ConfigurationError(f"{where}: {len(turns)} turns; only cases of a single turn are read")
    functions = row["function"] if isinstance(row["function"], list) else [row["function"]]
    wanted = _wanted(truth, where)
    return {
        "id": name,
        "messages": turns[0] if isinstance(turns[0], list) else turns,
        "tools": [_tool(function, where) for function in functions],
        "expected": wanted,
        "checks": [{"type": "tool_calls", "value": wanted}],
    }


def _tool(function: Any, where: str) -> dict[str, Any]:
    only(function, ("name", "description", "parameters"), f"{where}, function")
    return {"type": "function", "function": {**function, "parameters": _schema(function.get("parameters", {}), where)}}


def _wanted(truth: Any, where: str) -> list[dict[str, Any]]:
    shaped = isinstance(truth, list) and all(
        isinstance(call, dict)
        and all(isinstance(a, dict) and all(isinstance(v, list) for v in a.values()) for a in call.values())
        for call in truth
    )
    if not shaped:
        raise ConfigurationError(
            f"{where}: `ground_truth` must be a list of {{function: {{argument: [values that are right]}}}}; calls "
            "written as code are not run"
        )
    return [
        {"name": name, "arguments": {key: _alternatives(values) for key, values in arguments.items()}}
        for call in truth
        for name, arguments in call.items()
    ]


def _alternatives(values: list[Any]) -> dict[str, Any]:
    return {"any_of": [_inner(value) for value in values]}


def _inner(value: Any) -> Any:
    """Convert what lies inside a right value: objects in it hold lists of right values in turn."""
    if isinstance(value, dict):
        return {key: _alternatives(one) if isinstance(one, list) else one for key, one in value.items()}
    return [_inner(one) for one in value] if isinstance(value, list) else value


def _schema(schema: Any, where: str) -> Any:
    if isinstance(schema, list):
        return [_schema(one, where) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: one if key in ("default", "enum") else _schema(one, where) for key, one in schema.items()}
    kind = made.get("type")
    if not isinstance(kind, str):
        return made
    word = _NAMES.get(kind, kind)
    if word is not None and word not in _TYPES:
        raise ConfigurationError(f"{where}: type {kind!r} is none of {', '.join(sorted({*_NAMES, *_TYPES}))}")
    return {key: word if key == "type" else one for key, one in made.items() if key != "type" or word is not None}
