"""What may stand in a check, looked at before anything is asked: an option that nobody reads checks nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from sluicegate.gateway.commands.eval.cases import Case
from sluicegate.gateway.commands.eval.checks import (
    Options,
    compiled,
    metric_library,
    pattern_of,
    validator,
    validator_of,
    wanted_by,
)
from sluicegate.plugins import ConfigurationError

ROUGES = (*(f"rouge{n}" for n in range(1, 10)), "rougeL", "rougeLsum")


def check_options(case: Case) -> None:
    """Refuse what no check can do, before anything is asked. Raises `ConfigurationError`."""
    if case.schema is not None:
        validator_of(case.schema, case)
    for options in case.checks:
        name = options["type"]
        if name not in OPTIONS:
            known = ", ".join(sorted(OPTIONS))
            raise ConfigurationError(f"case {case.id}: no check is named {name!r}; known are {known}")
        _check_names(name, options, case)
        if "value" in OPTIONS[name]:
            _check_value(name, wanted_by(options, case), case)
        for pattern in _patterns(options):
            compiled(pattern, case)
        if name == "regex":
            pattern_of(options, case)
        if name == "schema":
            validator(options, case)
        if name in ("rouge", "bleu"):
            metric_library(name)


def _check_names(name: str, options: Options, case: Case) -> None:
    known = OPTIONS[name] | {"type", "at_least"}
    for option, value in options.items():
        if option not in known:
            raise ConfigurationError(
                f"case {case.id}: check {name!r} has no {option!r}; known are {', '.join(sorted(known))}"
            )
        allowed = _ALLOWED.get(option)
        if allowed is not None and not allowed[0](value):
            raise ConfigurationError(f"case {case.id}: `{option}` of check {name!r} {allowed[1]}, found {value!r}")


def _check_value(name: str, value: Any, case: Case) -> None:
    """Check that a check can compare with `value`: no text where calls or numbers are wanted. Raises
    `ConfigurationError`."""
    texts = value if isinstance(value, list) else [value]
    if name in _TEXTUAL and (not texts or any(isinstance(one, dict | list) or one is None for one in texts)):
        raise ConfigurationError(
            f"case {case.id}: check {name!r} compares with a text, or with any of several; found {value!r}"
        )
    if name == "number" and not _is_number(value):
        raise ConfigurationError(f"case {case.id}: check 'number' compares with a number, found {value!r}")
    calls = isinstance(value, list) and all(
        isinstance(one, dict) and isinstance(one.get("name"), str) and one.keys() <= {"name", "arguments"}
        and isinstance(one.get("arguments", {}), dict)
        for one in value
    )  # fmt: skip
    if name == "tool_calls" and not calls:
        raise ConfigurationError(
            f'case {case.id}: check \'tool_calls\' wants [{{"name", "arguments"}}], found {value!r}'
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _patterns(options: Options) -> list[Any]:
    return [*options.get("ignore", ()), *([options["extract"]] if "extract" in options else [])]


OPTIONS: Mapping[str, frozenset[str]] = {
    "exact": frozenset(("value", "ignore_case", "extract", "which", "ignore")),
    "json": frozenset(("value",)),
    "fields": frozenset(("value",)),
    "number": frozenset(("value", "tolerance", "relative")),
    "regex": frozenset(("pattern",)),
    "schema": frozenset(("schema",)),
    "contains": frozenset(("value", "ignore_case")),
    "not_contains": frozenset(("value", "ignore_case")),
    "refused": frozenset(),
    "answered": frozenset(),
    "rouge": frozenset(("value", "variant", "stemmer")),
    "bleu": frozenset(("value",)),
    "tool_calls": frozenset(("value", "in_order")),
    "judge": frozenset(("rubric",)),
}
"""The options of each check besides `type` and `at_least`. A check with `value` compares with it, or with
`expected`."""
_TEXTUAL = frozenset(("exact", "contains", "not_contains", "rouge", "bleu"))
_ALLOWED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "at_least": (lambda value: _is_number(value) and 0 <= value <= 1, "is a number from 0 to 1"),
    "tolerance": (lambda value: _is_number(value) and value >= 0, "is a number from 0"),
    "relative": (lambda value: _is_number(value) and value >= 0, "is a number from 0"),
    "ignore_case": (lambda value: isinstance(value, bool), "is true or false"),
    "stemmer": (lambda value: isinstance(value, bool), "is true or false"),
    "in_order": (lambda value: isinstance(value, bool), "is true or false"),
    "which": (lambda value: isinstance(value, int) and not isinstance(value, bool), "is a whole number"),
    "ignore": (lambda value: isinstance(value, list), "is a list of patterns"),
    "rubric": (lambda value: isinstance(value, str) and bool(value.strip()), "is a text"),
    "variant": (lambda value: value in ROUGES, f"is one of {', '.join(ROUGES)}"),
}
