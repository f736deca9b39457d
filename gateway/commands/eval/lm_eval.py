"""Tasks of lm-evaluation-harness over local rows of JSON: `generate_until` and `multiple_choice`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.eval.cases import Suite, cases_of, json_of, lines_of, text_of
from sluicegate.gateway.commands.eval.reading import filled, only, table_of
from sluicegate.plugins import ConfigurationError

_READ = frozenset(
    ("task", "output_type", "dataset_path", "dataset_kwargs", "dataset_name", "test_split", "validation_split",
     "description", "doc_to_text", "doc_to_target", "doc_to_choice", "generation_kwargs", "metric_list", "filter_list",
     "num_fewshot", "repeats")
)  # fmt: skip
_WITHOUT_EFFECT = frozenset(
    ("tag", "group", "metadata", "should_decontaminate", "doc_to_decontamination_query", "training_split",
     "fewshot_split", "target_delimiter", "fewshot_delimiter", "task_alias")
)  # fmt: skip
"""Fields without effect on what is asked and scored, as long as the question has no examples."""
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {"num_fewshot": (None, 0), "repeats": (None, 1), "dataset_name": (None,)}
"""Fields that are accepted with these values only."""
_GENERATION = frozenset(("until", "max_gen_toks", "temperature", "top_p", "do_sample"))
_EXACT = frozenset(("ignore_case", "ignore_punctuation", "ignore_numbers", "regexes_to_ignore"))
_ANY_METRIC = frozenset(("metric", "aggregation", "higher_is_better"))
_CHOICE_METRICS = frozenset(("acc", "acc_norm", "exact_match"))
PUNCTUATION = r"""[!-/:-@\[-`{-~]"""
"""Python's `string.punctuation`."""


def lm_eval(path: Path) -> Suite:
    """Read a task of lm-eval. Raises `ConfigurationError` for what asks or scores otherwise than can be done here."""
    tree = only(_with_base(path), _READ | _WITHOUT_EFFECT, str(path))
    for name, values in _NEUTRAL.items():
        if tree.get(name) not in values:
            raise ConfigurationError(f"{path}: `{name}: {tree[name]}` is not read; leave it out")
    kind = tree.get("output_type", "generate_until")
    if kind not in ("generate_until", "multiple_choice"):
        raise ConfigurationError(f"{path}: output_type {kind!r} needs log-likelihoods of texts, which no gateway gives")
    make = _generated if kind == "generate_until" else _chosen
    rows = [make(tree, doc, f"{path}, document {n}") for n, doc in enumerate(_documents(tree, path), 1)]
    note = "choices are asked for under an enum of them, not compared by log-likelihood"
    return Suite(str(tree.get("task", path.stem)), cases_of(rows, path), notes=(note,) if make is _chosen else ())


def _with_base(path: Path, depth: int = 0) -> dict[str, Any]:
    """Return a task's table laid over that of its `include`. Raises `ConfigurationError` for a circle."""
    tree = table_of(path)
    if "include" not in tree:
        return tree
    if depth > 8:
        raise ConfigurationError(f"{path}: `include` leads in a circle")
    return {**_with_base(path.parent / str(tree.pop("include")), depth + 1), **tree}


def _documents(tree: Mapping[str, Any], path: Path) -> list[dict[str, Any]]:
    files = only(tree.get("dataset_kwargs") or {}, ("data_files",), f"{path}, dataset_kwargs").get("data_files")
    if isinstance(files, dict):
        files = files.get(tree.get("test_split") or tree.get("validation_split") or "test")
    names = [name for name in (files if isinstance(files, list) else [files]) if isinstance(name, str)]
    if tree.get("dataset_path") != "json" or not names:
        raise ConfigurationError(f"{path}: only `dataset_path: json` with a local file in `dataset_kwargs` is read")
    found = [doc for name in names for doc in _rows(path.parent / name)]
    for n, doc in enumerate(found, 1):
        if not isinstance(doc, dict):
            raise ConfigurationError(f"{path}, document {n}: expected an object, found {type(doc).__name__}")
    return found


def _rows(file: Path) -> list[Any]:
    """Return the rows of a JSON list, or of lines of JSON, whatever the file is called."""
    text = text_of(file)
    if text.lstrip().startswith("["):
        return list(json_of(text, str(file)))
    return [json_of(line, where) for where, line in lines_of(text, file)]


def _prompt(tree: Mapping[str, Any], doc: Mapping[str, Any], where: str) -> str:
    before = tree.get("description")
    return (filled(str(before), doc, where) if before else "") + str(_of_document(tree, "doc_to_text", doc, where))


def _chosen(tree: Mapping[str, Any], doc: Mapping[str, Any], where: str) -> dict[str, Any]:
    for name in ("filter_list", "generation_kwargs"):
        if tree.get(name):
            raise ConfigurationError(f"{where}: `{name}` is not read where choices are compared")
    for metric in tree.get("metric_list") or ():
        only(metric, _ANY_METRIC, f"{where}, metric_list")
        name, known = metric.get("metric"), sorted(_CHOICE_METRICS)
        if name not in known:
            raise ConfigurationError(f"{where}: metric {name!r} is not read; those that are: {', '.join(known)}")
    target, choices = _of_document(tree, "doc_to_target", doc, where), _of_document(tree, "doc_to_choice", doc, where)
    choices = json_of(choices, where) if isinstance(choices, str) else list(choices)
    at = int(target) if str(target).isdecimal() and not isinstance(target, bool) else None
    right = target if at is None else choices[at] if at < len(choices) else None
    if right not in choices:
        raise ConfigurationError(
            f"{where}: the target {target!r} is none of the choices {choices!r}, nor the number of one"
        )
    schema = {
        "type": "object",
        "properties": {"answer": {"enum": choices}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    answer = {"expected": {"answer": right}, "checks": [{"type": "json"}]}
    return {"prompt": _prompt(tree, doc, where), "schema": schema, **answer}


def _generated(tree: Mapping[str, Any], doc: Mapping[str, Any], where: str) -> dict[str, Any]:
    target = _of_document(tree, "doc_to_target", doc, where)
    wanted = [str(one) for one in target] if isinstance(target, list) else str(target)
    taken = _filters(tree.get("filter_list") or [], where)
    metrics = tree.get("metric_list") or [{"metric": "exact_match"}]
    checks = [_metric(metric, wanted, taken, where) for metric in metrics]
    request = _request(only(tree.get("generation_kwargs") or {}, _GENERATION, f"{where}, generation_kwargs"))
    return {"prompt": _prompt(tree, doc, where), "expected": wanted, "request": request, "checks": checks}


def _request(generation: Mapping[str, Any]) -> dict[str, Any]:
    request = {name: generation[name] for name in ("temperature", "top_p") if name in generation}
    if generation.get("do_sample") is False:
        request = {"temperature": 0}
    elif generation.get("do_sample"):
        request = {"temperature": 1, **request}
    request["max_tokens"] = int(generation.get("max_gen_toks", 256))
    until = generation.get("until") or []
    stops = [until] if isinstance(until, str) else list(until)
    return {**request, "stop": stops} if stops else request


def _filters(pipelines: Any, where: str) -> dict[str, Any]:
    """Return what one pipeline of filters takes of an answer, as options of the check `exact`. Raises
    `ConfigurationError`."""
    if len(pipelines) > 1:
        names = ", ".join(str(one.get("name")) for one in pipelines)
        raise ConfigurationError(f"{where}: {len(pipelines)} pipelines of filters ({names}); keep the one to score by")
    options: dict[str, Any] = {}
    for step in pipelines[0].get("filter", ()) if pipelines else ():
        only(step, ("function", "regex_pattern", "group_select"), f"{where}, filter_list")
        if step["function"] == "regex" and not options:
            options["extract"] = str(step.get("regex_pattern", r"#### (\-?[0-9\.\,]+)"))
            options["which"] = int(step.get("group_select", 0))
        elif step["function"] not in ("take_first", "remove_whitespace"):
            raise ConfigurationError(
                f"{where}: filter {step['function']!r} is not read; one regex, then take_first or remove_whitespace are"
            )
    return options


def _metric(metric: Any, target: Any, taken: Mapping[str, Any], where: str) -> dict[str, Any]:
    name = metric.get("metric") if isinstance(metric, dict) else metric
    only(metric, _ANY_METRIC | (_EXACT if name == "exact_match" else frozenset()), f"{where}, metric {name!r}")
    if name == "exact_match":
        ignored = [str(one) for one in metric.get("regexes_to_ignore") or ()]
        ignored += [PUNCTUATION] * bool(metric.get("ignore_punctuation")) + ["[0-9]"] * bool(
            metric.get("ignore_numbers")
        )
        case = {"ignore_case": True} if metric.get("ignore_case") else {}
        return {"type": "exact", "value": target, **case, **({"ignore": ignored} if ignored else {}), **taken}
    if name not in ("bleu", "rouge1", "rouge2", "rougeL"):
        raise ConfigurationError(
            f"{where}: metric {name!r} is not read; those that are: exact_match, bleu, rouge1, rouge2, rougeL"
        )
    if taken:
        raise ConfigurationError(f"{where}: `filter_list` is read beside exact_match only")
    check = {"type": "bleu"} if name == "bleu" else {"type": "rouge", "variant": name}
    return {**check, "value": target, "at_least": 0.0}


def _of_document(tree: Mapping[str, Any], name: str, doc: Mapping[str, Any], where: str) -> Any:
    """Return the value of a field that `name` names, or a template filled from the fields. Raises
    `ConfigurationError`."""
    said = tree.get(name)
    if isinstance(said, list) or (isinstance(said, int) and name == "doc_to_target"):
        return said
    if not isinstance(said, str):
        raise ConfigurationError(f"{where}: `{name}` must be a field's name or a template, found {said!r}")
    return doc[said] if said in doc else filled(said, doc, where)
