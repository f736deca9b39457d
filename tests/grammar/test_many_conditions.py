"""Schemas of many conditions and parts: what they have in common is put together once, when they are compiled."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.grammar import GrammarOptions, compile_json_schema
from sluicegate.grammar.budget import meter
from sluicegate.grammar.json import root
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.containers import Existential, Object
from sluicegate.grammar.schema.document import Subschema
from sluicegate.grammar.schema.semantics import Semantics
from sluicegate.grammar.schema.strings import Strings
from tests.grammar.grammar_checks import byte_vocabulary, check_schema

COUNT = 12


def kinds(count: int = COUNT) -> dict[str, Any]:
    """Make a list of objects each of whose kinds has members of its own, as real schemas of settings do."""
    conditions = [
        {
            "if": {"properties": {"type": {"enum": [f"T{at}"]}}},
            "then": {"properties": {f"p{at}": {"type": "string"}}, "required": ["type", f"p{at}"]},
        }
        for at in range(count)
    ]
    item = {"type": "object", "properties": {"type": {"type": "string"}}, "allOf": conditions}
    return {"type": "array", "items": item}


def counted(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[tuple[Any, ...]]:
    """Note the arguments of each call of `owner.name`."""
    noted: list[tuple[Any, ...]] = []
    call = getattr(owner, name)

    def noting(*given: Any) -> Any:
        noted.append(given)
        return call(*given)

    monkeypatch.setattr(owner, name, noting)
    return noted


def test_many_conditions_are_put_together_when_the_schema_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    met = counted(monkeypatch, Semantics, "intersect")
    matcher = compile_json_schema({"type": "object", "properties": {"all": kinds()}}, byte_vocabulary()).matcher()
    when_compiled = len(met)
    for byte in b'{"all":[':
        matcher.accept(byte)
    matcher.shortest_completion()
    assert when_compiled > 20 * COUNT
    assert len(met) - when_compiled < COUNT


def test_what_is_planned_beforehand_is_left_where_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(root, "_PLANNED_S", 0.0)
    monkeypatch.setattr(meter, "_TICKS", 1.0)
    check_schema(kinds(2), [[{"type": "T0", "p0": ""}], [{"type": "x"}]], [[{"type": "T0"}]])
    beforehand = counted(monkeypatch, Semantics, "of_conjunction")
    compile_json_schema({"type": "object", "properties": {"all": kinds()}}, byte_vocabulary())
    assert len(beforehand) < COUNT


def test_kinds_of_items_are_told_apart() -> None:
    valid = [[{"type": "T3", "p3": "x"}], [{"type": "other"}], [{"type": "T0", "p0": ""}, {"type": "T1", "p1": ""}]]
    check_schema(kinds(), valid, [[{"type": "T3"}], [{"type": "T3", "p2": "x"}], [{"type": "T3", "p3": 1}]])


def test_nothing_is_met_with_a_value_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """`type` of two kinds at once is no text, whatever the others say."""
    met = counted(monkeypatch, Semantics, "intersect")
    compile_json_schema(kinds(), byte_vocabulary())
    assert len(met) < 10 * COUNT * COUNT


def test_facts_that_were_met_before_are_not_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = counted(monkeypatch, Subschema, "equals")
    followed = counted(monkeypatch, Subschema, "_followed")
    compile_json_schema(kinds(), byte_vocabulary())
    assert len({id(node) for (node,) in followed}) == len(followed)
    assert len(compared) < COUNT * COUNT


@pytest.mark.parametrize("order", ["schema", "any"])
def test_parts_of_an_object_are_put_together_in_linear_work(monkeypatch: pytest.MonkeyPatch, order: Any) -> None:
    met = counted(monkeypatch, Object, "meet")
    looked = counted(monkeypatch, Object, "parts_about")

    def work(count: int) -> float:
        met.clear()
        looked.clear()
        parts = [{"properties": {f"p{at}": {"type": "string"}}, "required": [f"p{at}"]} for at in range(count)]
        schema = {"type": "object", "allOf": parts}
        compile_json_schema(schema, byte_vocabulary(), options=GrammarOptions(property_order=order))
        copied = sum(len(one.parts) + len(other.parts) for one, other in met)
        return copied + sum(len(spec.parts_about(name)) for spec, name in list(looked))

    assert 256 < work(512) < 3 * work(256) < 256 * 256


def test_a_part_that_speaks_of_all_names_is_asked_for_each() -> None:
    parts: list[Any] = [{"properties": {f"p{at}": {"type": "string"}}} for at in range(20)]
    parts.insert(7, {"patternProperties": {"5$": {"maxLength": 1}}})
    parts.insert(3, {"properties": {"p1": {"minLength": 2}}, "additionalProperties": {"type": ["string", "null"]}})
    valid = [{"p1": "ab", "p5": "a"}, {"p6": "abc", "x": None}, {"p15": ""}]
    check_schema({"type": "object", "allOf": parts}, valid, [{"p1": "a"}, {"p5": "ab"}, {"x": 1}, {"p3": None}])


def test_demands_that_are_too_many_are_left_to_a_check_in_linear_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was compared with each, part for part: 300 took most of a second of a mask."""
    compared = counted(monkeypatch, Existential, "__eq__")
    names = [f"p{at}" for at in range(150)]
    needs = {name: [f"q{at}", f"r{at}", f"s{at}"] for at, name in enumerate(names)}
    schema = {"type": "object", "properties": {name: {} for name in names}, "dependentRequired": needs}
    compile_json_schema(schema, byte_vocabulary())
    assert len(compared) < 10 * len(names)


@pytest.mark.parametrize("order", ["schema", "any"])
def test_ways_to_break_a_schema_are_asked_only_for_names_that_they_list(
    monkeypatch: pytest.MonkeyPatch, order: Any
) -> None:
    """Each name was looked for in the way of each other one: 300 properties in a `not` took 55 ms of a completion."""
    asked = counted(monkeypatch, Strings, "has")
    names = [f"p{at}" for at in range(300)]
    broken = {"properties": {name: {"type": "integer"} for name in names}, "required": names}
    schema = {"type": "object", "properties": {"a": {"type": "null"}}, "not": broken}
    matcher = compile_json_schema(schema, byte_vocabulary(), options=GrammarOptions(property_order=order)).matcher()
    matcher.bound(30)
    assert matcher.shortest_completion() is not None
    assert len(asked) < 20 * len(names)


def test_names_listed_and_names_of_patterns_break_a_schema() -> None:
    """Ways by listed names stand beside ways by patterns, and beside names that no property may have."""
    many = {f"p{at}": {"type": "integer"} for at in range(12)}
    schema = {"type": "object", "not": {"properties": many, "patternProperties": {"^(p1|q)": {"type": "integer"}}}}
    valid = [{"p3": "x"}, {"p1": None, "p2": 1}, {"q": "x"}, {"p11": []}, {"z": 1, "q1": {}}]
    check_schema(schema, valid, [{}, {"p3": 1}, {"p1": 1, "q": 2, "z": "x"}])
    closed = {"type": "object", "not": {"properties": many, "additionalProperties": False, "required": ["p0", "p1"]}}
    valid = [{"p0": 1}, {"p0": 1, "p1": "x"}, {"p0": 1, "p1": 1, "z": 1}, {}]
    check_schema(closed, valid, [{"p0": 1, "p1": 1}, {"p0": 1, "p1": 2, "p5": 3}])


def test_the_names_that_a_schema_excludes_are_put_together_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sets without one name each were intersected one after the other."""
    intersected = counted(monkeypatch, strings, "intersect")
    names = [f"p{at}" for at in range(300)]
    without = {"allOf": [{"not": {"required": [name]}} for name in names]}
    compile_json_schema({"type": "object", "not": {"not": without}}, byte_vocabulary())
    assert len(intersected) < 5 * len(names)
    few = {"allOf": without["allOf"][:12]}
    check_schema({"type": "object", "not": {"not": few}}, [{"p12": 1}, {}], [{"p1": 1}, {"p13": 1, "p11": 2}])
