"""Suites in promptfoo's YAML: `prompts`, and `tests` with `vars` and `assert`."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.eval.cases import Suite, cases_of, text_of
from sluicegate.gateway.commands.eval.reading import filled, filled_everywhere, only, referred, table_of, yaml_of
from sluicegate.plugins import ConfigurationError

_READ = frozenset(("description", "prompts", "tests", "defaultTest"))
_OF_ITS_RUNNER = frozenset(
    (
        "$schema",
        "commandLineOptions",
        "evaluateOptions",
        "metadata",
        "outputPath",
        "providers",
        "sharing",
        "tags",
        "targets",
    )
)
"""Settings of promptfoo's own runner (how it asks, where it writes); here the command line sets these."""
_TEST = frozenset(("description", "vars", "assert", "metadata"))
_CHECK = frozenset(("type", "value", "threshold", "metric", "weight"))
_THRESHOLDS: Mapping[str, float | None] = {"rouge-n": 0.75, "bleu": 0.5, "llm-rubric": None}
"""Assertions with a threshold -> its default; None = the default of our own check."""
_FILES = (".txt", ".md", ".json", ".yaml", ".yml", ".j2")
_CODE = (".py", ".js", ".ts", ".cjs", ".mjs", ".csv", ".tsv", ".xlsx")


def promptfoo(path: Path) -> Suite:
    """Read a suite of promptfoo: each prompt with each test, once for each combination of values where variables have
    several. Raises `ConfigurationError`."""
    tree = only(table_of(path), _READ | _OF_ITS_RUNNER, str(path))
    usual = only(tree.get("defaultTest") or {}, _TEST, f"{path}, defaultTest")
    prompts = list(_prompts(tree.get("prompts"), path))
    tests = _tests(tree.get("tests"), path)
    rows: list[dict[str, Any]] = []
    for (p, prompt), (t, test) in itertools.product(enumerate(prompts, 1), enumerate(tests, 1)):
        where = f"{path}, prompt {p}, test {t}"
        for values in _variables({**_vars(usual, where), **_vars(test, where)}, path.parent, where):
            name = str(test.get("description") or f"test {t}") + (f" / prompt {p}" if len(prompts) > 1 else "")
            asserts = [*_asserts(usual, where), *_asserts(test, where)]
            checks = [_check(one, values, path.parent, where) for one in asserts] or [{"type": "answered"}]
            rows.append({"id": _unused(name, rows), **_asked(prompt, values, where), "checks": checks})
    return Suite(str(tree.get("description", path.stem)), cases_of(rows, path), notes=tuple(_notes(tree, rows)))


def _notes(tree: Mapping[str, Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    unused = sorted(_OF_ITS_RUNNER.intersection(tree) - {"$schema", "metadata", "tags"})
    if unused:
        yield f"of promptfoo's file not used, since the command line says it: {', '.join(unused)}"
    if any(check["type"] in ("refused", "answered") and "was" in check for row in rows for check in row["checks"]):
        yield "is-refusal tells whether a rail refused, not whether the words of an answer decline"
    for row in rows:
        for check in row["checks"]:
            check.pop("was", None)


def _unused(name: str, rows: list[dict[str, Any]]) -> str:
    taken = {row["id"] for row in rows}
    return next(one for n in itertools.count(1) if (one := name if n == 1 else f"{name} ({n})") not in taken)


def _prompts(given: Any, path: Path) -> Iterator[Any]:
    """Yield the prompts: texts, or lists of messages."""
    if not given:
        raise ConfigurationError(f"{path}: `prompts` is missing")
    for prompt in given if isinstance(given, list) else [given]:
        if isinstance(prompt, dict):
            only(prompt, ("id", "label", "raw"), f"{path}, prompts")
            prompt = prompt.get("raw", prompt.get("id"))
        if not isinstance(prompt, str):
            raise ConfigurationError(f"{path}: a prompt is a text, or a table with `raw`; found {prompt!r}")
        yield from _prompt(prompt, path)


def _prompt(text: str, path: Path) -> Iterator[Any]:
    name = text.removeprefix("file://")
    if "\n" not in text and (text.startswith("file://") or name.endswith((*_FILES, *_CODE))):
        if name.endswith(_CODE):
            raise ConfigurationError(f"{path}: prompt {text!r} is not read; files that are: {', '.join(_FILES)}")
        text = text_of(path.parent / name)
        if name.endswith((".yaml", ".yml")):
            yield yaml_of(text, name)
            return
        if not name.endswith(".json"):
            yield from (_messages_in(part) for part in text.removesuffix("\n").split("\n---\n") if part.strip())
            return
    yield _messages_in(text)


def _messages_in(text: str) -> Any:
    """Return a prompt that is a JSON list as a list of messages, whose texts are templates each; any other as it is."""
    if not text.lstrip().startswith("["):
        return text
    try:
        found = yaml_of(text, "prompt")  # JSON is YAML
    except ConfigurationError:
        return text
    return found if isinstance(found, list) and all(isinstance(one, dict) for one in found) else text


def _asked(prompt: Any, values: Mapping[str, Any], where: str) -> dict[str, Any]:
    if isinstance(prompt, list):
        return {"messages": filled_everywhere(prompt, values, where)}
    text = filled(str(prompt), values, where)
    if re.match(r'\s*\[\s*\{\s*"(role|content)"', text):
        raise ConfigurationError(
            f"{where}: the prompt looks like a list of messages, but its template is no JSON; write values within "
            "quotes, as {{name}}, without loops"
        )
    return {"prompt": text}


def _tests(given: Any, path: Path) -> list[dict[str, Any]]:
    found: list[Any] = []
    for test in given if isinstance(given, list) else [{} if given is None else given]:
        one = referred(test, path.parent, f"{path}, tests") if isinstance(test, str) else test
        found += one if isinstance(one, list) else [one]
    return [only(test, _TEST, f"{path}, test {t}") for t, test in enumerate(found, 1)]


def _vars(test: Mapping[str, Any], where: str) -> dict[str, Any]:
    values = test.get("vars") or {}
    if not isinstance(values, dict):
        raise ConfigurationError(f"{where}: `vars` must be a table, found {values!r}")
    return values


def _asserts(test: Mapping[str, Any], where: str) -> list[Any]:
    asserts = test.get("assert") or []
    if not isinstance(asserts, list):
        raise ConfigurationError(f"{where}: `assert` must be a list, found {asserts!r}")
    return asserts


def _variables(values: Mapping[str, Any], folder: Path, where: str) -> Iterator[dict[str, Any]]:
    """Yield each combination of values; lists are alternatives."""
    lists = [value if isinstance(value, list) else [value] for value in values.values()]
    for chosen in itertools.product(*lists):
        found = [referred(one, folder, where) if isinstance(one, str) else one for one in chosen]
        yield dict(zip(values, found, strict=True))


def _check(check: Any, values: Mapping[str, Any], folder: Path, where: str) -> dict[str, Any]:
    only(check, _CHECK, f"{where}, assertion {check.get('type') if isinstance(check, dict) else check!r}")
    kind, value = str(check.get("type")), check.get("value")
    value = filled_everywhere(referred(value, folder, where) if isinstance(value, str) else value, values, where)
    made = _made(kind, value, where)
    if check.get("weight", 1) != 1:
        raise ConfigurationError(f"{where}: assertion {kind!r} has a weight; all checks of a case weigh the same here")
    if "threshold" in check and kind not in _THRESHOLDS:
        raise ConfigurationError(f"{where}: `threshold` of assertion {kind!r} is not read")
    least = check.get("threshold", _THRESHOLDS.get(kind))
    return made if least is None else {**made, "at_least": least}


def _made(kind: str, value: Any, where: str) -> dict[str, Any]:
    made: dict[str, dict[str, Any]] = {
        "equals": {"type": "json" if isinstance(value, dict | list) else "exact", "value": value},
        "contains": {"type": "contains", "value": value},
        "icontains": {"type": "contains", "value": value, "ignore_case": True},
        "contains-all": {"type": "contains", "value": _listed(value)},
        "icontains-all": {"type": "contains", "value": _listed(value), "ignore_case": True},
        "contains-any": {"type": "regex", "pattern": _any_of(value)},
        "icontains-any": {"type": "regex", "pattern": f"(?i:{_any_of(value)})"},
        "starts-with": {"type": "regex", "pattern": rf"\A{re.escape(str(value))}"},
        "not-contains": {"type": "not_contains", "value": value},
        "not-icontains": {"type": "not_contains", "value": value, "ignore_case": True},
        "regex": {"type": "regex", "pattern": f"(?-s:{value})"},
        "not-regex": {"type": "regex", "pattern": rf"\A(?!.*(?-s:{value}))"},
        "is-json": {"type": "schema", "schema": True if value is None else _schema(value, where)},
        "is-refusal": {"type": "refused", "was": kind},
        "not-is-refusal": {"type": "answered", "was": kind},
        "llm-rubric": {"type": "judge", "rubric": value},
        "rouge-n": {"type": "rouge", "variant": "rouge1", "value": value},
        "bleu": {"type": "bleu", "value": value},
    }
    if kind not in made:
        raise ConfigurationError(f"{where}: assertion {kind!r} is not read; those that are: {', '.join(made)}")
    return made[kind]


def _schema(value: Any, where: str) -> Any:
    return yaml_of(value, f"{where}, schema of is-json") if isinstance(value, str) else value


def _listed(value: Any) -> list[Any]:
    """Return a list: a text with commas is a list of texts, any other value is the only item."""
    if isinstance(value, str):
        return [one.strip() for row in csv.reader([value], skipinitialspace=True) for one in row]
    return value if isinstance(value, list) else [value]


def _any_of(value: Any) -> str:
    return "|".join(re.escape(str(one)) for one in _listed(value))
