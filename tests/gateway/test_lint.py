"""`sluicegate lint`: each rule finds what it is about, is content with what it advises, and says what was measured."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.values_variants import VARIANTS
from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.linting.measured import MEASURED
from sluicegate.gateway.linting.report import lint
from sluicegate.gateway.linting.rules import RULES, advise, words_of


def answer(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False, **more}


def one(name: str, below: dict[str, Any], **more: Any) -> dict[str, Any]:
    return answer({name: below}, required=[name], **more)


NESTED: Any = {"type": "string"}
for _ in range(5):
    NESTED = one("inner", NESTED)
DATE = r"^\d{4}-\d{2}-\d{2}$"
CASES: dict[str, tuple[Any, Any]] = {
    "reasons-first": (answer({"score": {}, "reasoning": {}}), answer({"reasoning": {}, "score": {}})),
    "enum": (one("orderStatus", {"type": "string"}), one("orderStatus", {"enum": ["open", "closed"]})),
    "description": (one("due", {"type": "string"}), one("due", {"type": "string", "description": "when it is due"})),
    "plain-keys": (one("f1", {}), one("invoice_number", {})),
    "abbreviations": (one("cstmr_name", {}), one("customer_name", {})),
    "date-format": (one("due_date", {"type": "string"}), one("due_date", {"type": "string", "format": "date"})),
    "odd-patterns": (one("code", {"pattern": r"^[A-Z]{3}-\d{6}$"}), one("code", {"pattern": "^[a-z]+$"})),
    "nullable": (answer({"due": {"type": "string"}}), one("due", {"type": ["string", "null"]})),
    "two-ways-of-nothing": (answer({"due": {"type": ["string", "null"]}}), one("due", {"type": ["string", "null"]})),
    "one-type": (
        one("total", {"anyOf": [{"type": "number"}, {"type": "string"}]}),
        one("total", {"anyOf": [{"type": "number"}, {"type": "null"}]}),
    ),
    "closed": ({"type": "object", "properties": {"a": {}}}, answer({"a": {}})),
    "flat": (NESTED, one("inner", one("inner", {"type": "string"}))),
    "long-keys": (one("the_number_that_is_printed_on_the_invoice", {}), one("invoice_number", {})),
    "not-a-keyword": (one("a", {"maxLenght": 3}), one("a", {"maxLength": 3, "x-note": 1})),
    "max-length": (one("note", {"type": "string"}), one("note", {"type": "string", "maxLength": 200})),
    "number-bounds": (one("age", {"type": "integer"}), one("age", {"type": "integer", "minimum": 0})),
    "max-items": (
        one("tags", {"type": "array", "items": {}}),
        one("tags", {"type": "array", "items": {}, "maxItems": 5}),
    ),
    "fewer-properties": (answer({f"field{k}name": {} for k in range(13)}), answer({"a": {}})),
}


def rules_of(schema: Any) -> set[str]:
    return {one.rule for one in advise(schema)}


def test_every_rule_has_a_case() -> None:
    assert {*RULES, "fewer-properties"} == CASES.keys()


@pytest.mark.parametrize("rule", CASES)
def test_a_rule_finds_what_it_is_about_and_is_content_with_what_it_advises(rule: str) -> None:
    before, after = CASES[rule]
    assert rule in rules_of(before)
    assert rule not in rules_of(after)


def test_kinds_of_objects_are_told_apart_by_a_first_constant() -> None:
    def either(*kinds: Any) -> Any:
        return one("event", {"oneOf": [answer(kind) for kind in kinds]})

    assert "one-type" in rules_of(either({"a": {}}, {"b": {}}))
    assert "one-type" not in rules_of(either({"kind": {"const": "a"}}, {"kind": {"const": "b"}, "b": {}}))


def test_definitions_are_read_once_with_a_place_of_their_own_also_where_they_recur() -> None:
    tree = answer({"st": {"type": "string"}, "more": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}})
    found = advise({"$ref": "#/$defs/Tree", "$defs": {"Tree": tree}})
    assert [one.pointer for one in found if one.rule == "max-length"] == ["/$defs/Tree/properties/st"]


@pytest.mark.parametrize("rule", list(MEASURED))
def test_what_was_measured_is_of_a_rule_and_can_be_measured_again(rule: str) -> None:
    assert rule in CASES
    assert rule in VARIANTS
    gain = MEASURED[rule]
    assert gain.fields >= 80
    assert gain.low <= gain.after - gain.before <= gain.high


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "oneOf", "required", "$ref", "$defs", "enum", "a/b"]
            )
            | st.text(max_size=4),
            inner,
            max_size=5,
        )
    ),
    max_leaves=20,
)


@given(JSON)
@settings(max_examples=300, deadline=None)
def test_no_json_breaks_it_and_every_place_is_there(schema: Any) -> None:
    for found in lint(schema, compiled=False).advice:
        at = schema
        for part in found.pointer.split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            at = at[int(part)] if isinstance(at, list) else at[part]


@pytest.mark.parametrize(
    ("name", "words"),
    [("dueDate", ["due", "date"]), ("due_date", ["due", "date"]), ("URL", ["url"]), ("f1", ["f", "1"])],
)
def test_names_are_read_word_by_word(name: str, words: list[str]) -> None:
    assert words_of(name) == words


def test_the_command_prints_advice_with_its_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(CASES["enum"][0]))
    assert main(["lint", str(file)]) == 0
    shown = capsys.readouterr().out
    assert "can be served" in shown
    assert f"enum (1): on the bundled model {MEASURED['enum']}" in shown
    assert "/properties/orderStatus: list the values it can have in `enum`" in shown


def test_what_requests_carry_a_schema_in_is_read_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": CASES["enum"][0]}}}
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(wanted)))
    assert main(["lint", "-", "--fast", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {one["rule"] for one in report["advice"]} == rules_of(CASES["enum"][0])
    assert report["key_tokens"] > 0


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ('{"type": "string", "pattern": "("}', 1, "cannot be served"),
        ('{"type": "string", "format": "postcode"}', 0, "not enforced: format 'postcode'"),
        ("{", 2, "is not JSON"),
        ("nowhere.json", 2, "cannot read nowhere.json"),
        ("[1]", 2, "a schema to advise on is a JSON object"),
    ],
)
def test_what_cannot_be_served_or_read_is_said(
    given: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lint", given]) == status
    shown = capsys.readouterr()
    assert said in shown.out + shown.err


def test_advice_alone_imports_nothing_heavy() -> None:
    call = "main(['lint', '{\"properties\": {\"a\": {}}}', '--fast'])"
    code = f"import sys; from sluicegate.gateway.commands.cli import main; {call}"
    heavy = "print([name for name in ('torch', 'transformers', 'numba', 'fastapi') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", f"{code}\n{heavy}"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
