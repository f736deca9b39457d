"""Checks: what a reply scores, from 0 to 1. To add one: a function, a row in `CHECKS`, and one in
`OPTIONS` of `options.py`.

A check gets its own object from the case (`options.py` says what may stand there), the case and the reply. It raises
`ConfigurationError` where the case asks what it cannot do, `CheckFailed` where the reply cannot be scored (no JSON,
say): that scores 0, with the reason.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema_rs

from sluicegate.gateway.answer.json_values import leaves, same
from sluicegate.gateway.commands.eval.cases import Case
from sluicegate.gateway.commands.eval.outcomes import CaseReply, UsedTool
from sluicegate.plugins import ConfigurationError

Options = Mapping[str, Any]
_MISSING = object()


class CheckFailed(Exception):
    """Says why a reply scores nothing."""


@dataclass(frozen=True, slots=True)
class CheckScore:
    """`score` 0 to 1; `passed` where it is enough; `note` says what was found where it is not."""

    check: str
    score: float
    passed: bool
    note: str = ""


CheckFunction = Callable[[Options, Case, CaseReply], float]


def scored(options: Options, case: Case, reply: CaseReply) -> CheckScore:
    """Run one check. Unless `at_least` says otherwise it passes with a score of 1."""
    name = str(options["type"])
    if reply.refused and name not in ON_REFUSALS:
        return CheckScore(name, 0.0, False, f"refused: {reply.text[:200]}")
    try:
        score = CHECKS[name](options, case, reply)
    except CheckFailed as failed:
        return CheckScore(name, 0.0, False, str(failed))
    return CheckScore(name, score, score >= float(options.get("at_least", 1.0)) - 1e-9)


def wanted_by(options: Options, case: Case) -> Any:
    value = options.get("value", case.expected)
    if value is None and "value" not in options:
        raise ConfigurationError(f"case {case.id}: check {options['type']!r} needs `value`, or `expected` of the case")
    return value


def exact(options: Options, case: Case, reply: CaseReply) -> float:
    """Return 1.0 where the whole text, or what `extract` finds in it, is one of the wanted texts apart from blanks
    around it, else 0.0.

    `extract`: the first group of a pattern's match (`which`: of the first 0, of the last -1); `ignore`: patterns left
    out of both texts; `ignore_case`."""
    wanted = wanted_by(options, case)
    texts = [str(one) for one in wanted] if isinstance(wanted, list) else [str(wanted)]
    found = _plain_text(_extracted(options, reply.text), options)
    return float(found in [_plain_text(text, options) for text in texts])


def _extracted(options: Options, text: str) -> str:
    if "extract" not in options:
        return text
    found = list(re.finditer(str(options["extract"]), text))
    try:
        match = found[int(options.get("which", 0))]
    except IndexError:
        raise CheckFailed(f"{options['extract']!r} is not found in the answer") from None
    return next(filter(None, match.groups()), match.group())


def _plain_text(text: str, options: Options) -> str:
    for pattern in options.get("ignore", ()):
        text = re.sub(pattern, "", text)
    return (text.casefold() if options.get("ignore_case") else text).strip()


def as_json(options: Options, case: Case, reply: CaseReply) -> float:
    """Return 1.0 where the whole answer is the wanted JSON value, else 0.0."""
    return float(same(_value(reply), wanted_by(options, case)))


def fields(options: Options, case: Case, reply: CaseReply) -> float:
    """Return the field F1: leaves that are right, of those that stand in the answer and those that should."""
    wanted, found = dict(leaves(wanted_by(options, case))), dict(leaves(_value(reply)))
    right = sum(same(found.get(path, _MISSING), value) for path, value in wanted.items())
    return 2 * right / (len(wanted) + len(found)) if wanted or found else 1.0


def number(options: Options, case: Case, reply: CaseReply) -> float:
    """Return 1.0 where the answer, or the last number in its text, lies within `tolerance` (absolute) or `relative` of
    the wanted number, else 0.0."""
    wanted = float(wanted_by(options, case))
    try:
        value = reply.value
    except ValueError:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        numbers = re.findall(r"-?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?", reply.text)
        if not numbers:
            raise CheckFailed("no number in the answer")
        value = float(numbers[-1].replace(",", ""))
    room = max(float(options.get("tolerance", 0.0)), abs(wanted) * float(options.get("relative", 0.0)))
    return float(math.isfinite(value) and abs(value - wanted) <= room)


def regex(options: Options, case: Case, reply: CaseReply) -> float:
    return float(pattern_of(options, case).search(reply.text) is not None)


def pattern_of(options: Options, case: Case) -> re.Pattern[str]:
    if "pattern" not in options:
        raise ConfigurationError(f"case {case.id}: check 'regex' needs `pattern`")
    return compiled(options["pattern"], case)


def compiled(pattern: Any, case: Case) -> re.Pattern[str]:
    try:
        return re.compile(str(pattern), re.DOTALL)
    except re.error as error:
        raise ConfigurationError(f"case {case.id}: {pattern!r} is no regular expression: {error}") from None


def schema(options: Options, case: Case, reply: CaseReply) -> float:
    """Return 1.0 where the answer is valid under `schema` of the check or the case. Raises `CheckFailed`."""
    errors = list(validator(options, case).iter_errors(_value(reply)))
    if errors:
        raise CheckFailed(f"{errors[0].message} (at /{'/'.join(map(str, errors[0].instance_path))})")
    return 1.0


def validator(options: Options, case: Case) -> Any:
    wanted = options.get("schema", case.schema)
    if wanted is None:
        raise ConfigurationError(f"case {case.id}: check 'schema' needs `schema`, of its own or of the case")
    return validator_of(wanted, case)


def validator_of(wanted: Any, case: Case) -> Any:
    """Compile a schema. Raises `ConfigurationError` where `wanted` is no JSON Schema."""
    try:
        return jsonschema_rs.validator_for(wanted)
    except (ValueError, jsonschema_rs.ValidationError) as error:
        raise ConfigurationError(f"case {case.id}: `schema` is no JSON Schema: {error}") from error


def contains(options: Options, case: Case, reply: CaseReply) -> float:
    """Return the share of the wanted texts that stand in the answer."""
    texts = _texts(options, case)
    return sum(_stands(text, options, reply) for text in texts) / len(texts)


def not_contains(options: Options, case: Case, reply: CaseReply) -> float:
    """Return 1.0 where none of these texts stands in the answer. One that does is a leak: raises `CheckFailed`."""
    for text in _texts(options, case):
        if _stands(text, options, reply):
            raise CheckFailed(f"{text!r} stands in the answer")
    return 1.0


def _texts(options: Options, case: Case) -> list[str]:
    wanted = wanted_by(options, case)
    return [str(one) for one in (wanted if isinstance(wanted, list) and wanted else [wanted])]


def _stands(text: str, options: Options, reply: CaseReply) -> bool:
    said = reply.text + "".join(json.dumps(call.arguments, ensure_ascii=False) for call in reply.tool_calls)
    return text.casefold() in said.casefold() if options.get("ignore_case") else text in said


def refused(options: Options, case: Case, reply: CaseReply) -> float:
    return float(reply.refused)


def answered(options: Options, case: Case, reply: CaseReply) -> float:
    """Return 1.0 for an answer that is no refusal, as a harmless request must get, else 0.0."""
    return float(not reply.refused)


def rouge(options: Options, case: Case, reply: CaseReply) -> float:
    """Return F1 of ROUGE (Lin 2004) by `rouge_score`. `variant` is rouge1, rouge2 or rougeL; of several texts the best
    counts."""
    variant = str(options.get("variant", "rougeL"))
    scorer = metric_library("rouge").RougeScorer([variant], use_stemmer=bool(options.get("stemmer", True)))
    return float(max(scorer.score(text, reply.text)[variant].fmeasure for text in _texts(options, case)))


def bleu(options: Options, case: Case, reply: CaseReply) -> float:
    """Return sentence BLEU (Papineni 2002) by `sacrebleu`, 0 to 1."""
    return float(metric_library("bleu").sentence_bleu(reply.text, _texts(options, case)).score / 100)


def metric_library(name: str) -> Any:
    try:
        if name == "rouge":
            from rouge_score import rouge_scorer

            return rouge_scorer
        import sacrebleu

        return sacrebleu
    except ImportError as error:
        raise ConfigurationError(f"check {name!r} needs a library: pip install 'sluicegate[eval]' ({error})") from error


def tool_calls(options: Options, case: Case, reply: CaseReply) -> float:
    """Return 1.0 where every wanted call stands there, and no other. Calls are `[{"name", "arguments"}]`, where an
    argument's value may be `{"any_of": [...]}`; with `in_order`, in this order. `[]` wants none. Raises
    `CheckFailed`."""
    wanted, found = list(wanted_by(options, case)), list(reply.tool_calls)
    if len(wanted) != len(found):
        raise CheckFailed(f"{len(found)} calls where {len(wanted)} are wanted: {[call.name for call in found]}")
    for call in wanted:
        pool = found[:1] if options.get("in_order") else found
        at = next((i for i, one in enumerate(pool) if _calls(call, one)), None)
        if at is None:
            raise CheckFailed(f"no call is {json.dumps(call, ensure_ascii=False)}")
        del found[at]
    return 1.0


def _calls(wanted: Mapping[str, Any], found: UsedTool) -> bool:
    arguments = wanted.get("arguments", {})
    if wanted["name"] != found.name or not isinstance(found.arguments, dict):
        return False
    if found.arguments.keys() - arguments.keys():
        return False
    return all(_allowed(value, found.arguments.get(key, _MISSING)) for key, value in arguments.items())


def _allowed(wanted: Any, found: Any) -> bool:
    """Return whether a value is wanted. `{"any_of": [...]}` at any depth allows each of its values; `""` among them
    also allows the argument to be left out."""
    if isinstance(wanted, dict) and wanted.keys() == {"any_of"}:
        return any(_allowed(one, found) or (found is _MISSING and one == "") for one in wanted["any_of"])
    if isinstance(wanted, dict) and isinstance(found, dict):
        return found.keys() <= wanted.keys() and all(
            _allowed(one, found.get(key, _MISSING)) for key, one in wanted.items()
        )
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_allowed, wanted, found))
    return same(wanted, found)


def _value(reply: CaseReply) -> Any:
    try:
        return reply.value
    except ValueError as error:
        raise CheckFailed(f"no JSON: {error}") from None


ON_REFUSALS = ("refused", "answered", "not_contains")
"""Checks that a refusal can pass."""
CHECKS: Mapping[str, CheckFunction] = {
    "exact": exact,
    "json": as_json,
    "fields": fields,
    "number": number,
    "regex": regex,
    "schema": schema,
    "contains": contains,
    "not_contains": not_contains,
    "refused": refused,
    "answered": answered,
    "rouge": rouge,
    "bleu": bleu,
    "tool_calls": tool_calls,
}
