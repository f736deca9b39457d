"""Suites in the forms of other tools: promptfoo's YAML, tasks of lm-evaluation-harness, function calls as in BFCL.

What a form asks and this one cannot do is refused by name: a check that is silently left out would pass everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import StrictUndefined, TemplateError
from jinja2.sandbox import SandboxedEnvironment

from sluicegate.gateway.commands.eval.cases import Case, Suite, cases_of, json_of, suite_of, text_of
from sluicegate.plugins import ConfigurationError

_TEMPLATES = SandboxedEnvironment(undefined=StrictUndefined, keep_trailing_newline=True)
_TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": None, "double": "number", "long": "integer"}


def read_suite(path: Path, form: str = "auto") -> Suite:
    """Read a suite of the `form`, or of the one that its name and content show. Raises `ConfigurationError`."""
    if form != "auto":
        return FORMS[form](path)
    if path.suffix in (".yaml", ".yml"):
        return _lm_eval(path) if "doc_to_text" in _yaml(path) else _promptfoo(path)
    if path.suffix in (".jsonl", ".json") and '"function"' in text_of(path).partition("\n")[0]:
        return _bfcl(path)
    return suite_of(path)


def _promptfoo(path: Path) -> Suite:
    """`prompts`, `tests` with `vars` and `assert`, `defaultTest`; providers are what the command line says."""
    tree = _yaml(path)
    prompts = tree.get("prompts") or []
    usual = tree.get("defaultTest") or {}
    rows = []
    for p, prompt in enumerate(prompts, 1):
        template = _prompt_text(prompt, path)
        for t, test in enumerate(tree.get("tests") or [{}], 1):
            where = f"{path}, prompt {p}, test {t}"
            values = {**(usual.get("vars") or {}), **(test.get("vars") or {})}
            asserts = [*(usual.get("assert") or []), *(test.get("assert") or [])]
            checks = [_promptfoo_check(one, values, where) for one in asserts]
            name = f"{test.get('description', f'test {t}')} / prompt {p}" if len(prompts) > 1 else f"test {t}"
            rows.append(
                {"id": name, **_asked(_filled(template, values, where)), "checks": checks or [{"type": "answered"}]}
            )
    return Suite(str(tree.get("description", path.stem)), cases_of(rows, path))


def _prompt_text(prompt: Any, path: Path) -> str:
    if isinstance(prompt, dict):
        prompt = prompt.get("raw") or prompt.get("label", "")
    text = str(prompt)
    return text_of(path.parent / text.removeprefix("file://")) if text.startswith("file://") else text


def _asked(text: str) -> dict[str, Any]:
    """A prompt that is a JSON list is a list of messages."""
    try:
        messages = json.loads(text)
    except ValueError:
        return {"prompt": text}
    return {"messages": messages} if isinstance(messages, list) else {"prompt": text}


def _promptfoo_check(check: Mapping[str, Any], values: Mapping[str, Any], where: str) -> dict[str, Any]:
    kind, value = str(check.get("type")), check.get("value")
    if isinstance(value, str):
        value = _filled(value, values, where)
    made: dict[str, dict[str, Any]] = {
        "equals": {"type": "json" if isinstance(value, dict | list) else "exact", "value": value},
        "contains": {"type": "contains", "value": value},
        "icontains": {"type": "contains", "value": value, "ignore_case": True},
        "contains-all": {"type": "contains", "value": value},
        "icontains-all": {"type": "contains", "value": value, "ignore_case": True},
        "not-contains": {"type": "not_contains", "value": value},
        "not-icontains": {"type": "not_contains", "value": value, "ignore_case": True},
        "regex": {"type": "regex", "pattern": value},
        "is-json": {"type": "schema", "schema": True if value is None else value},
        "is-refusal": {"type": "refused"},
        "not-is-refusal": {"type": "answered"},
        "llm-rubric": {"type": "judge", "rubric": value},
        "rouge-n": {"type": "rouge", "variant": "rouge1", "value": value},
        "bleu": {"type": "bleu", "value": value},
    }
    if kind not in made:
        raise ConfigurationError(f"{where}: assertion {kind!r} is not read; those that are: {', '.join(made)}")
    threshold = {"at_least": check.get("threshold", 0.75)} if kind in ("rouge-n", "bleu") else {}
    return {**made[kind], **threshold}


def _lm_eval(path: Path) -> Suite:
    """A task of local JSON rows: `generate_until` and `multiple_choice`."""
    tree = _yaml(path)
    kind = tree.get("output_type", "generate_until")
    if kind not in ("generate_until", "multiple_choice"):
        raise ConfigurationError(f"{path}: output_type {kind!r} needs log-likelihoods of texts, which no gateway gives")
    rows = [_lm_eval_case(tree, doc, kind, f"{path}, document {n}") for n, doc in enumerate(_documents(tree, path), 1)]
    note = "choices are asked for under an enum of them, not compared by log-likelihood"
    return Suite(
        str(tree.get("task", path.stem)), cases_of(rows, path), notes=(note,) if kind != "generate_until" else ()
    )


def _documents(tree: Mapping[str, Any], path: Path) -> list[Any]:
    files = (tree.get("dataset_kwargs") or {}).get("data_files")
    if isinstance(files, dict):
        files = files.get(tree.get("test_split", "test"))
    if tree.get("dataset_path") != "json" or not isinstance(files, str):
        raise ConfigurationError(f"{path}: only `dataset_path: json` with a local file in `dataset_kwargs` is read")
    text = text_of(path.parent / files)
    if files.endswith(".json"):
        return list(json_of(text, files))
    return [json_of(line, f"{files}, line {n}") for n, line in enumerate(text.splitlines(), 1) if line.strip()]


def _lm_eval_case(tree: Mapping[str, Any], doc: Mapping[str, Any], kind: str, where: str) -> dict[str, Any]:
    prompt = _of_document(tree, "doc_to_text", doc, where)
    target = _of_document(tree, "doc_to_target", doc, where)
    if kind == "multiple_choice":
        choices = _of_document(tree, "doc_to_choice", doc, where)
        choices = json_of(choices, where) if isinstance(choices, str) else list(choices)
        right = choices[int(target)] if str(target).isdecimal() and int(target) < len(choices) else target
        schema = {
            "type": "object",
            "properties": {"answer": {"enum": choices}},
            "required": ["answer"],
            "additionalProperties": False,
        }
        return {"prompt": str(prompt), "schema": schema, "expected": {"answer": right}, "checks": [{"type": "json"}]}
    generation = tree.get("generation_kwargs") or {}
    request = {name: generation[name] for name in ("temperature", "top_p") if name in generation}
    request |= {"max_tokens": int(generation.get("max_gen_toks", 256))}
    if generation.get("until"):
        request["stop"] = generation["until"][:4]
    checks = [_metric(metric, str(target), where) for metric in tree.get("metric_list") or [{"metric": "exact_match"}]]
    return {"prompt": str(prompt), "expected": str(target), "request": request, "checks": checks}


def _of_document(tree: Mapping[str, Any], name: str, doc: Mapping[str, Any], where: str) -> Any:
    """A field's name, or a template over the fields."""
    said = tree.get(name)
    if not isinstance(said, str):
        if isinstance(said, list):
            return said
        raise ConfigurationError(f"{where}: `{name}` must be a field's name or a template, found {said!r}")
    return doc[said] if said in doc else _filled(said, doc, where)


def _metric(metric: Mapping[str, Any], target: str, where: str) -> dict[str, Any]:
    name = metric.get("metric")
    if name == "exact_match":
        return {"type": "exact", "value": target.strip(), "ignore_case": bool(metric.get("ignore_case"))}
    if name in ("bleu", "rouge1", "rouge2", "rougeL"):
        check = {"type": "bleu"} if name == "bleu" else {"type": "rouge", "variant": name}
        return {**check, "value": target, "at_least": 0.0}
    raise ConfigurationError(
        f"{where}: metric {name!r} is not read; those that are: exact_match, bleu, rouge1, rouge2, rougeL"
    )


def _bfcl(path: Path) -> Suite:
    """Rows of `id`, `question` (turns of messages) and `function`; right calls in `ground_truth` of the row, or of the
    row of the same id in `possible_answer/` beside the file."""
    rows = [json_of(line, f"{path}, line {n}") for n, line in enumerate(text_of(path).splitlines(), 1) if line.strip()]
    beside = path.parent / "possible_answer" / path.name
    answers: dict[Any, Any] = {}
    if beside.is_file():
        told = [json_of(line, str(beside)) for line in text_of(beside).splitlines() if line.strip()]
        answers = {row["id"]: row["ground_truth"] for row in told}
    return Suite(path.stem, tuple(_bfcl_case(row, answers, f"{path}, {row.get('id')}") for row in rows))


def _bfcl_case(row: Mapping[str, Any], answers: Mapping[Any, Any], where: str) -> Case:
    truth = row.get("ground_truth", answers.get(row.get("id")))
    turns = row.get("question") or []
    if truth is None or not turns:
        raise ConfigurationError(f"{where}: needs `question`, and `ground_truth` in the row or in possible_answer/")
    if len(turns) > 1 and isinstance(turns[0], list):
        raise ConfigurationError(f"{where}: {len(turns)} turns; only cases of a single turn are read")
    messages = tuple(turns[0] if isinstance(turns[0], list) else turns)
    tools = tuple(
        {"type": "function", "function": {**tool, "parameters": _schema(tool.get("parameters", {}))}}
        for tool in row["function"]
    )
    wanted = [
        {"name": name, "arguments": {key: {"any_of": values} for key, values in arguments.items()}}
        for call in truth
        for name, arguments in call.items()
    ]
    return Case(str(row["id"]), messages, ({"type": "tool_calls", "value": wanted},), tools=tools, expected=wanted)


def _schema(schema: Any) -> Any:
    """Python's names of types become those of JSON Schema."""
    if isinstance(schema, list):
        return [_schema(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _schema(value) for key, value in schema.items()}
    kind = made.get("type")
    if isinstance(kind, str) and kind in _TYPES:
        if _TYPES[kind] is None:
            del made["type"]
        else:
            made["type"] = _TYPES[kind]
    return made


def _filled(template: str, values: Mapping[str, Any], where: str) -> str:
    try:
        return _TEMPLATES.from_string(template).render(values)
    except TemplateError as error:
        raise ConfigurationError(f"{where}: template {template[:60]!r}: {error}") from error


def _yaml(path: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError as error:
        raise ConfigurationError(f"{path}: YAML needs a library: pip install 'sluicegate[eval]'") from error
    try:
        tree = yaml.safe_load(text_of(path))
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        raise ConfigurationError(f"{path}: expected a table, found {type(tree).__name__}")
    return tree


FORMS: Mapping[str, Callable[[Path], Suite]] = {
    "cases": suite_of,
    "promptfoo": _promptfoo,
    "lm-eval": _lm_eval,
    "bfcl": _bfcl,
}
