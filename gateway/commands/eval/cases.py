"""Cases of an evaluation: what is asked, and what the answer must be. Reads suites of JSON lines and TOML."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.arguments import cannot_read
from sluicegate.plugins import ConfigurationError

FIELDS = frozenset(
    ("id", "prompt", "messages", "schema", "tools", "expected", "checks", "request", "human", "tags", "max_tokens")
)
PARTS: Mapping[str, frozenset[str]] = {
    "suite": frozenset(("name",)),
    "judge": frozenset(("model", "url", "rubric", "request")),
    "defaults": FIELDS,
}
"""The tables of a TOML suite besides `[[case]]`, and the keys of each."""
_TYPES: Mapping[str, tuple[type, ...]] = {
    "schema": (dict, bool),
    "tools": (list,),
    "checks": (list,),
    "request": (dict,),
    "tags": (list,),
    "max_tokens": (int,),
}
MESSAGES = tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Case:
    """One request with its checks.

    `request`: further fields of the body. `expected` is what checks without a value of their own compare with. With
    `human`, what a person gave the answer in `expected` (0 to 1), the case is not asked: the judge is judged by it.
    """

    id: str
    messages: MESSAGES
    checks: tuple[Mapping[str, Any], ...]
    schema: Mapping[str, Any] | bool | None = None
    tools: tuple[Mapping[str, Any], ...] = ()
    expected: Any = None
    request: Mapping[str, Any] = field(default_factory=dict)
    human: float | None = None
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """`notes`: what a reader of a foreign form asks otherwise than its own runner would; the report says it."""

    name: str
    cases: tuple[Case, ...]
    judge: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def suite_of(path: Path) -> Suite:
    """Read `.jsonl` (a case a line) or `.toml` (`[suite]`, `[defaults]`, `[judge]`, `[[case]]`). Raises
    `ConfigurationError` that names the case."""
    if path.suffix == ".toml":
        return _toml(path)
    rows = [json_of(line, where) for where, line in lines_of(text_of(path), path)]
    return Suite(path.stem, cases_of(rows, path))


def _toml(path: Path) -> Suite:
    try:
        tree = tomllib.loads(text_of(path))
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path} is no TOML: {error}") from error
    unknown = sorted(tree.keys() - {*PARTS, "case"})
    if unknown:
        raise ConfigurationError(
            f"{path}: {unknown[0]!r} is no part of a suite; known are {', '.join((*PARTS, 'case'))}"
        )
    for part, known in PARTS.items():
        _check_part(tree.get(part, {}), known, f"{path}, [{part}]")
    if not isinstance(tree.get("case", []), list):
        raise ConfigurationError(f"{path}: write [[case]] for each case, with two brackets")
    rows = [{**tree.get("defaults", {}), **row} for row in tree.get("case", [])]
    return Suite(str(tree.get("suite", {}).get("name", path.stem)), cases_of(rows, path), tree.get("judge", {}))


def _check_part(table: Any, known: frozenset[str], where: str) -> None:
    if not isinstance(table, dict):
        raise ConfigurationError(f"{where}: expected a table, found {type(table).__name__}")
    unknown = sorted(table.keys() - known)
    if unknown:
        raise ConfigurationError(f"{where}: {unknown[0]!r} is not known; known are {', '.join(sorted(known))}")
    if not isinstance(table.get("request", {}), dict):
        raise ConfigurationError(f"{where}: `request` must be a table of fields of the body")


def cases_of(rows: Iterable[Any], path: Path) -> tuple[Case, ...]:
    """Make cases of rows as in a suite's file; an `id` that is missing is the row's number."""
    cases = [_case(row, number, path) for number, row in enumerate(rows, 1)]
    if not cases:
        raise ConfigurationError(f"{path} holds no case")
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise ConfigurationError(f"{path}: two cases have the id {case.id!r}")
        seen.add(case.id)
    return tuple(cases)


def _case(row: Any, number: int, path: Path) -> Case:
    where = f"{path}, case {row.get('id', number) if isinstance(row, dict) else number}"
    if not isinstance(row, dict):
        raise ConfigurationError(f"{where}: expected an object, found {type(row).__name__}")
    unknown = sorted(row.keys() - FIELDS)
    if unknown:
        raise ConfigurationError(
            f"{where}: {unknown[0]!r} is no field of a case; known are {', '.join(sorted(FIELDS))}"
        )
    _check_types(row, where)
    request = dict(row.get("request", {}))
    if "max_tokens" in row:
        request["max_tokens"] = row["max_tokens"]
    case = Case(
        str(row.get("id", number)),
        _messages(row, where),
        _checks(row, where),
        row.get("schema"),
        tuple(row.get("tools", ())),
        row.get("expected"),
        request,
        _human(row, where),
        tuple(map(str, row.get("tags", ()))),
    )
    if case.human is not None and case.expected is None:
        raise ConfigurationError(f"{where}: has `human`, and no `expected`: the answer that a person marked")
    if case.checks or case.human is not None:
        return case
    return replace(case, checks=_usual_checks(case, where))


def _check_types(row: Mapping[str, Any], where: str) -> None:
    for name, types in _TYPES.items():
        value = row.get(name)
        if name in row and (not isinstance(value, types) or (isinstance(value, bool) and bool not in types)):
            wanted = {dict: "an object", list: "a list", int: "a whole number", bool: "a boolean"}
            raise ConfigurationError(
                f"{where}: `{name}` must be {' or '.join(wanted[one] for one in types)}, found {value!r}"
            )
    try:
        json.dumps(row, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"{where}: {error}; dates stand in quotes, and numbers are finite") from None


def _messages(row: Mapping[str, Any], where: str) -> MESSAGES:
    if ("prompt" in row) == ("messages" in row):
        raise ConfigurationError(f"{where}: needs either `prompt` or `messages`")
    if "prompt" in row:
        return ({"role": "user", "content": str(row["prompt"])},)
    messages = row["messages"]
    if not isinstance(messages, list) or not all(isinstance(m, dict) and "role" in m for m in messages) or not messages:
        raise ConfigurationError(f"{where}: `messages` must be a list of objects with `role` and `content`")
    return tuple(messages)


def _checks(row: Mapping[str, Any], where: str) -> tuple[Mapping[str, Any], ...]:
    given: Sequence[Any] = row.get("checks", ())
    checks = [{"type": one} if isinstance(one, str) else one for one in given]
    for check in checks:
        if not isinstance(check, dict) or not isinstance(check.get("type"), str):
            raise ConfigurationError(f"{where}: a check is a name, or an object with `type`; found {check!r}")
    return tuple(checks)


def _usual_checks(case: Case, where: str) -> tuple[Mapping[str, Any], ...]:
    if isinstance(case.expected, dict):
        return ({"type": "fields"},)
    if case.expected is not None:
        return ({"type": "json" if case.schema is not None else "exact"},)
    if case.schema is not None:
        return ({"type": "schema"},)
    raise ConfigurationError(f"{where}: has neither `checks` nor `expected` nor `schema`; nothing would be checked")


def _human(row: Mapping[str, Any], where: str) -> float | None:
    human = row.get("human")
    if human is None:
        return None
    if isinstance(human, bool) or not isinstance(human, int | float) or not 0 <= human <= 1:
        raise ConfigurationError(f"{where}: `human` must be a number from 0 to 1, found {human!r}")
    return float(human)


def text_of(path: Path) -> str:
    """Read a file of UTF-8 text. Raises `ConfigurationError`."""
    try:
        return path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(path, error) from error


def lines_of(text: str, path: Path) -> Iterator[tuple[str, str]]:
    """Give each line that is not blank, with its place. Only line feeds part lines: JSON may hold U+2028 as it is."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield f"{path}, line {number}", line


def json_of(text: str, where: str) -> Any:
    """Read JSON. Raises `ConfigurationError`, also for a name that stands twice in an object: it is not clear which was
    meant."""
    try:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except ValueError as error:
        raise ConfigurationError(f"{where}: no JSON: {error}") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands twice in an object")
    return found


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
