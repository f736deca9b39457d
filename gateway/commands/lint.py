"""`sluicegate lint SCHEMA`: what makes a model do better with a schema, and what each advice was measured to bring."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.arguments import cannot_read
from sluicegate.plugins.errors import ConfigurationError

NOTES = """\
SCHEMA is a file with a JSON Schema, `-` for standard input, or JSON itself; what is found inside `response_format`, a
tool or `json_schema` is read too. Numbers are of the bundled model, which is very small: `python -m benchmarks.values
--model FOLDER --variants all` measures yours. Exit status 1: the schema cannot be served."""


def define(lint: argparse.ArgumentParser) -> None:
    """Add the arguments of `lint`."""
    lint.epilog = NOTES
    lint.add_argument("schema", help="a file, `-`, or JSON itself")
    lint.add_argument("--fast", action="store_true", help="do not compile it: advice alone, in a tenth of the time")
    lint.add_argument("--json", action="store_true", help="print one JSON object")
    lint.set_defaults(run=_lint)


def _lint(parsed: argparse.Namespace) -> int:
    """Print a report on a schema; return 1 where it cannot be served, else 0. Raises `ConfigurationError` for what is
    no JSON, or no schema."""
    from sluicegate.gateway.linting.report import lint

    report = lint(_schema(_read(parsed.schema)), compiled=not parsed.fast)
    print(json.dumps(report.as_json()) if parsed.json else report.as_text())
    return 1 if report.error else 0


def _read(given: str) -> Any:
    try:
        if given == "-":
            text = sys.stdin.read()
        else:
            text = given if given.lstrip().startswith(("{", "[")) else Path(given).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise cannot_read(given, error) from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{given[:80]} is not JSON: {error}") from error


def _schema(found: Any) -> dict[str, Any]:
    """Return the schema within what requests carry it in. Raises `ConfigurationError` where there is none."""
    for key in ("response_format", "json_schema", "function", "schema", "parameters", "input_schema"):
        inside = found.get(key) if isinstance(found, dict) else None
        if isinstance(inside, dict) and not {"properties", "$ref", "anyOf"} & found.keys():
            found = inside
    if not isinstance(found, dict):
        raise ConfigurationError(f"a schema to advise on is a JSON object, not {json.dumps(found)[:60]}")
    return found
