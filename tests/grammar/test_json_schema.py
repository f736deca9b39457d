"""Every sentence is one of JSON Schema's; each is checked on masks, acceptance and the end of the text."""

from __future__ import annotations

import json
import time

import pytest

from sluicegate import grammar
from sluicegate.grammar import (
    GrammarLimit,
    GrammarOptions,
    InvalidGrammar,
    Unsatisfiable,
    UnsupportedGrammar,
    compile_json_schema,
)
from sluicegate.grammar.schema.checks import Checks
from sluicegate.grammar.schema.containers import SchemaRef
from sluicegate.grammar.schema.document import SchemaDocument
from sluicegate.grammar.schema.semantics import Semantics
from sluicegate.grammar.schema.value_set import NOTHING, ValueSet
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_schema, walk


def test_type_allows_just_the_named_types() -> None:
    check_schema({"type": "integer"}, [0, -7, 12], [1.5, "1", None, True, [], {}])
    check_schema({"type": ["null", "boolean"]}, [None, True, False], [0, "null", {}])
    check_schema({"type": "number"}, [0, 1.5, -1e10], ["a", None])
    check_schema(True, [None, 1, "a", [1, {}], {"a": {"b": []}}])


def test_an_integer_may_be_spelled_with_a_fraction_of_zero_but_not_in_draft_4() -> None:
    check_schema({"type": "integer"}, ["1.0", "1e2", "-0"], ["1.5", "1.", "01"], raw=True)
    check_schema({"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}, ["1"], ["1.0"], raw=True)


def test_numbers_keep_their_bounds_and_steps() -> None:
    check_schema({"type": "integer", "minimum": 3, "maximum": 12}, [3, 9, 10, 12], [2, 13, -3, 30])
    check_schema({"type": "number", "exclusiveMinimum": 0, "maximum": 1.5}, [0.1, 1, 1.5], [0, -1, 1.51])
    check_schema({"minimum": 5, "exclusiveMinimum": True, "type": "integer"}, [6], [5])
    check_schema({"type": "number", "multipleOf": 0.25}, [0.5, 1, 0.75], [0.3, 1.1])
    check_schema({"type": "integer", "multipleOf": 7}, [0, 7, -14, 700], [1, 8])


def test_strings_are_measured_in_characters_whatever_their_spelling() -> None:
    check_schema({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "éé", "😀😀😀", "a\nb"], ["", "a", "abcd"])
    check_schema({"maxLength": 1}, [r'"\u0061"', r'"\ud83d\ude00"', r'"\n"'], [r'"\u0061b"'], raw=True)
    check_schema({"type": "string", "maxLength": 100_000}, ["x" * 50])


def test_a_pattern_sees_decoded_characters() -> None:
    check_schema({"type": "string", "pattern": "^[ab]+$"}, ["a", "abab"], ["", "abc"])
    check_schema({"type": "string", "pattern": "^[ab]+$"}, [r'"\u0061b"'], [r'"\u0063"'], raw=True)
    check_schema({"type": "string", "pattern": "foo"}, ["foo", "a foo b"], ["fo", "bar"])
    check_schema({"type": "string", "pattern": "^a*$", "minLength": 2, "maxLength": 300}, ["aa", "a" * 20], ["a", "ab"])


def test_a_known_format_is_enforced_and_an_unknown_one_is_noted() -> None:
    check_schema({"type": "string", "format": "date"}, ["2024-02-29"], ["2023-02-29", "today"])
    check_schema({"type": "string", "format": "uuid"}, ["2eb8aa08-aa98-11ea-b4aa-73b441d16380"], ["2eb8"])
    compiled = check_schema({"type": "string", "format": "sort-of"}, ["anything"])
    assert "sort-of" in compiled.notes[0]


def test_a_pattern_that_only_python_knows_is_enforced_as_python_reads_it_and_noted() -> None:
    compiled = check_schema({"type": "string", "pattern": r"\A(?P<n>[0-9]+)\Z"}, ["12"], ["", "1a", "x12"])
    assert "Python" in compiled.notes[0]
    names = check_schema(
        {"patternProperties": {r"^(?P<n>a)$": {"type": "integer"}}}, [{"a": 1}, {"b": ""}], [{"a": ""}]
    )
    assert "/patternProperties/" in names.notes[0]
    assert not check_schema({"type": "string", "pattern": "^a$"}, ["a"], ["b"]).notes
    with pytest.raises(InvalidGrammar, match="ECMA-262"):
        compile_json_schema({"pattern": r"\q"}, byte_vocabulary())


def test_enum_and_const_allow_equal_values_however_spelled() -> None:
    check_schema(
        {"enum": ["red", 1, None, True, [1], {"a": 1}]}, ["red", 1, None, True, [1], {"a": 1}], ["blue", 2, [], {}]
    )
    check_schema({"const": 1}, ["1", "1.0"], ["2", '"1"', "true"], raw=True)
    check_schema({"const": "né"}, ['"né"', r'"n\u00e9"', r'"n\u00E9"', r'"\u006eé"'], ['"n"', '"néx"'], raw=True)
    check_schema({"const": 'a"\\/b'}, [r'"a\"\\/b"', r'"a\u0022\\\/b"'], [r'"a"'], raw=True)
    check_schema({"enum": [f"value-{i}" for i in range(10_000)]}, ["value-0", "value-9999"], ["value-10000", "value"])


def test_known_strings_may_be_cut_inside_a_character() -> None:
    """Tokens of single bytes, or of half a character."""
    check_schema({"enum": ["é", "éa", "😀", "日本"]}, ["é", "éa", "😀", "日本"], ["e", "日", "😁"])
    check_schema(
        {"properties": {"größe": {"type": "integer"}}, "additionalProperties": False}, [{"größe": 1}], [{"grö": 1}]
    )


def test_objects_keep_to_the_listed_properties_and_their_order() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    check_schema(
        schema, [{"a": 1}, {"a": 1, "b": "x"}], [{}, {"b": "x"}, {"b": "x", "a": 1}, {"a": "1"}, {"a": 1, "c": 1}]
    )
    check_schema(schema, [{"b": "x", "a": 1}], [{"b": "x"}], property_order="any")
    check_schema(
        {"properties": {"b": {}, "a": {}}, "required": ["a"], "type": "object"},
        [{"a": 1, "b": 1}],
        [{"b": 1, "a": 1}],
        property_order="required_first",
    )


def test_no_property_comes_twice_however_its_name_is_spelled() -> None:
    check_schema({"type": "object"}, ['{"a":1,"b":1}'], ['{"a":1,"a":1}', r'{"a":1,"\u0061":1}'], raw=True)
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    check_schema(
        schema, ['{"a":1,"ab":2}', '{"b":1}'], ['{"a":1,"a":2}', '{"b":1,"a":"x"}', r'{"\u0061":"x"}'], raw=True
    )
    check_schema(schema, ['{"b":1,"a":2}'], ['{"a":1,"b":1,"a":2}'], raw=True, property_order="any")
    check_schema(
        {"items": {"type": "object"}}, ['[{"a":1},{"a":1}]', '[{"a":{"a":1}}]'], ['[{"a":1},{"a":1,"a":1}]'], raw=True
    )


def test_additional_and_pattern_properties_rule_the_names_they_are_for() -> None:
    check_schema(
        {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}, "type": "object"},
        [{"a": "x", "b": 1}, {}],
        [{"a": 1}, {"b": "x"}],
    )
    check_schema(
        {
            "type": "object",
            "patternProperties": {"^x": {"type": "integer"}, "y$": {"minimum": 5}},
            "additionalProperties": False,
        },
        [{"x": 1}, {"y": 7}, {"y": "s"}, {"xy": 5}],
        [{"xy": 4}, {"xy": "s"}, {"a": 1}, {"x": "s"}],
    )
    check_schema(
        {"patternProperties": {"^[ab]$": {}}, "additionalProperties": False, "type": "object"},
        [{"a": 1, "b": 1}],
        [{"c": 1}],
    )


def test_property_names_and_counts() -> None:
    check_schema({"type": "object", "propertyNames": {"maxLength": 2}}, [{"ab": 1}, {}], [{"abc": 1}])
    check_schema(
        {"type": "object", "minProperties": 1, "maxProperties": 2},
        [{"a": 1}, {"a": 1, "b": 2}],
        [{}, {"a": 1, "b": 2, "c": 3}],
    )
    check_schema(
        {
            "type": "object",
            "properties": {"a": {}, "b": {}, "c": {}},
            "additionalProperties": False,
            "minProperties": 2,
        },
        [{"a": 1, "c": 1}, {"b": 1, "c": 1}],
        [{"c": 1}, {}],
    )


def test_arrays_keep_their_items_and_bounds() -> None:
    check_schema(
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
        [[1], [1, 2, 3]],
        [[], [1, 2, 3, 4], ["a"]],
    )
    check_schema(
        {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False},
        [[], [1], [1, "a"]],
        [["a"], [1, "a", 1]],
    )
    check_schema({"items": [{"type": "integer"}], "additionalItems": {"type": "null"}}, [[1, None]], [[None], [1, 2]])


def test_unique_items_compares_values_not_spellings() -> None:
    check_schema(
        {"type": "array", "uniqueItems": True}, [[1, 2], ["a", "b"], [[1], [2]], [{"a": 1}, {"a": 2}], [1, True]]
    )
    check_schema({"type": "array", "uniqueItems": True}, [], [[1, 1], ["a", "a"], [{"a": 1, "b": 2}, {"b": 2, "a": 1}]])
    check_schema({"uniqueItems": True}, ["[1,1.5]"], ["[1,1.0]", r'["a","\u0061"]', "[[1],[1.0]]"], raw=True)
    check_schema({"items": {"enum": ["a", "b", 1]}, "uniqueItems": True}, [["a", 1, "b"]], [["a", "a"], [1, 1]])


@pytest.mark.parametrize(
    ("items", "values"),
    [
        ({"type": "integer"}, [0, 1, 10, -5]),
        ({"type": "integer", "minimum": 0, "maximum": 255}, [0, 2, 200, 255]),
        ({"type": "number", "maximum": 5}, [0, 0.5, 3, 5]),
        ({"type": "string", "format": "date"}, ["2020-01-01", "2020-01-02"]),
        ({"type": ["string", "null"]}, ["a", None, "ab"]),
        ({"type": "string", "maxLength": 2}, ["a", "ab", ""]),
        ({}, [0, True, None, "a", [0], {"a": 0}]),
    ],
)
def test_unique_items_are_not_begun_again_where_they_could_only_be_the_same(
    items: object, values: list[object]
) -> None:
    """After `[0, 0` there was no way on: every spelling of an integer that begins with 0 is 0."""
    schema = {"type": "array", "uniqueItems": True, "items": items}
    compiled = check_schema(schema, [values, values[::-1]], [[*values, value] for value in values])
    for seed in range(6):
        walk(compiled, seed)


def test_contains_counts_items() -> None:
    check_schema({"type": "array", "contains": {"type": "integer"}}, [[1], ["a", 1]], [[], ["a"]])
    check_schema(
        {"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [[1, 1], [1, 2, 1, 1]], [[1], [1, 1, 1, 1]]
    )


def test_any_of_follows_all_branches_at_once() -> None:
    check_schema(
        {
            "anyOf": [
                {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
                {"properties": {"a": {"type": "string"}}},
            ],
            "type": "object",
        },
        [{"a": 1}, {"a": "x"}, {}],
        [{"a": None}],
    )
    check_schema({"anyOf": [{"maxLength": 2}, {"pattern": "^x+$"}], "type": "string"}, ["ab", "xxxx"], ["abc"])


def test_all_of_is_the_intersection() -> None:
    check_schema(
        {
            "allOf": [
                {"properties": {"a": {"minimum": 3}}},
                {"properties": {"a": {"type": "integer"}, "b": {"type": "null"}}, "required": ["b"]},
            ],
            "type": "object",
        },
        [{"a": 3, "b": None}, {"b": None, "a": 4}],
        [{"a": 2, "b": None}, {"a": 3}],
    )
    check_schema({"allOf": [{"pattern": "^a"}, {"pattern": "b$"}], "type": "string"}, ["ab", "axb"], ["a", "b"])


def test_one_of_means_exactly_one() -> None:
    check_schema({"oneOf": [{"type": "integer"}, {"minimum": 2, "type": "number"}]}, [1, 2.5], [3, 1.5])
    check_schema(
        {"type": "object", "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        [{"a": 1}, {"b": 1}],
        [{}, {"a": 1, "b": 1}],
    )
    check_schema({"oneOf": [{"maxLength": 3}, {"minLength": 3}], "type": "string"}, ["ab", "abcd"], ["abc"])


def test_not_is_the_complement() -> None:
    check_schema({"not": {"type": "integer"}}, [1.5, "a", None], [1, 2])
    check_schema({"type": "string", "not": {"enum": ["a", "bc"]}}, ["b", "abc", ""], ["a", "bc"])
    check_schema({"type": "object", "not": {"required": ["a"]}}, [{}, {"b": 1}], [{"a": 1}])
    check_schema({"type": "object", "not": {"properties": {"a": {"type": "string"}}}}, [{"a": 1}], [{}, {"a": "x"}])
    check_schema({"type": "object", "not": {"additionalProperties": {"type": "integer"}}}, [{"a": "x"}], [{}, {"a": 1}])
    check_schema({"type": "array", "not": {"uniqueItems": True}}, [[1, 1]], [[], [1, 2]])


def test_conditions_choose_between_then_and_else() -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["n", "s"]}, "value": {}},
        "required": ["kind", "value"],
        "if": {"properties": {"kind": {"const": "n"}}},
        "then": {"properties": {"value": {"type": "number"}}},
        "else": {"properties": {"value": {"type": "string"}}},
    }
    check_schema(
        schema,
        [{"kind": "n", "value": 1}, {"kind": "s", "value": "x"}],
        [{"kind": "n", "value": "x"}, {"kind": "s", "value": 1}],
    )


def test_dependencies_of_every_draft() -> None:
    for keyword in ("dependentRequired", "dependencies"):
        check_schema({"type": "object", keyword: {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 1}], [{"a": 1}])
    for keyword in ("dependentSchemas", "dependencies"):
        check_schema(
            {"type": "object", keyword: {"a": {"maxProperties": 1}}}, [{"a": 1}, {"b": 1, "c": 1}], [{"a": 1, "b": 1}]
        )


def test_unevaluated_sees_what_the_branches_that_hold_evaluated() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {}},
        "anyOf": [
            {"properties": {"b": {"const": 1}}, "required": ["b"]},
            {"properties": {"c": {"const": 2}}, "required": ["c"]},
        ],
        "unevaluatedProperties": False,
    }
    check_schema(schema, [{"a": 0, "b": 1}, {"c": 2}, {"b": 1, "c": 2}], [{"a": 0}, {"b": 1, "d": 0}, {"b": 1, "c": 3}])
    check_schema(
        {"prefixItems": [{}], "allOf": [{"prefixItems": [{}, {}]}], "unevaluatedItems": False}, [[1, 2]], [[1, 2, 3]]
    )


def test_references_and_recursion() -> None:
    tree = {
        "$defs": {
            "t": {
                "type": "object",
                "properties": {"l": {"$ref": "#/$defs/t"}, "v": {"type": "integer"}},
                "additionalProperties": False,
            }
        },
        "$ref": "#/$defs/t",
    }
    check_schema(tree, [{}, {"l": {"l": {}}}, {"l": {"v": 1}, "v": 2}], [{"l": 1}, {"l": {"x": 1}}])
    check_schema(
        {
            "$id": "http://x/root",
            "items": {"$ref": "item#it"},
            "$defs": {"i": {"$id": "item", "$defs": {"d": {"$anchor": "it", "type": "null"}}}},
        },
        [[None]],
        [[1]],
    )
    check_schema({"definitions": {"a b%": {"type": "null"}}, "$ref": "#/definitions/a%20b%25"}, [None], [1])


def test_the_schemas_of_json_schema_itself_are_known() -> None:
    for name in (
        "http://json-schema.org/draft-04/schema#",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2020-12/meta/applicator",
    ):
        schema = {"type": "object", "properties": {"a": {"$ref": name}}}
        valid = [{"a": {"properties": {"x": {"minLength": 3, "items": {}}}}}, {"a": {}}]
        check_schema(schema, valid, [{"a": {"properties": {"x": 3}}}, {"a": []}], property_order="any")
    with pytest.raises(UnsupportedGrammar):
        compile_json_schema({"$ref": "https://json-schema.org/draft/2020-12/meta/nothing"}, byte_vocabulary())


def test_other_documents_are_followed_where_they_are_given_along() -> None:
    documents = {"http://a.example/x.json": {"$defs": {"n": {"type": "integer"}}, "not": {"$ref": "y.json#/$defs/m"}}}
    documents["http://a.example/y.json"] = {"$defs": {"m": {"type": "object", "additionalProperties": {"minimum": 3}}}}
    schema = {"type": "object", "items": {}, "allOf": [{"$ref": "http://a.example/x.json"}]}
    compiled = compile_json_schema(schema, byte_vocabulary(), documents=documents)
    assert accepts(compiled, '{"a": 1}')
    assert not accepts(compiled, '{"a": 4}')
    with pytest.raises(UnsupportedGrammar, match=r"y\.json"):
        compile_json_schema(
            schema, byte_vocabulary(), documents={name: documents[name] for name in list(documents)[:1]}
        )


def test_a_relative_identifier_is_no_obstacle_to_a_check_of_the_whole_value() -> None:
    inner = {
        "type": "object",
        "properties": {"x": {"$ref": "item.json#/$defs/n"}},
        "additionalProperties": {"type": "string"},
    }
    schema = {
        "$id": "item.json",
        "$defs": {"a b^": inner, "n": {"type": "integer"}},
        "not": {"$ref": "#/$defs/a%20b%5E"},
    }
    check_schema(schema, [1, {"x": "s"}, {"y": 1}], [{"x": 1, "y": "s"}, {}])


def test_a_check_reads_references_with_characters_that_no_uri_has() -> None:
    schema = {
        "$defs": {"a b<c>": {"type": "integer"}},
        "properties": {"x": {"$ref": "#/$defs/a b<c>"}, "y": {"const": {"$ref": "a b"}}},
    }
    document = SchemaDocument(schema)
    holds = Checks(document).validator(SchemaRef(document.root))
    assert holds({"x": 1, "y": {"$ref": "a b"}})
    assert not holds({"x": "s"})
    assert not holds({"y": {"$ref": "a%20b"}})


def test_what_is_inside_itself_is_not_left_out_where_it_is_met_first_elsewhere() -> None:
    """A plan made while the recursion was still in question was kept, without the part in question."""
    tree = {"type": "array", "prefixItems": [{"type": "string"}, {"$ref": "#/$defs/tree"}]}
    schema = {"$ref": "#/$defs/tree", "maxItems": 2, "$defs": {"tree": tree}}
    check_schema(schema, [["a", ["b", [], 8]]], [["a", ["b", [], 8], 8]])


def test_a_property_called_id_names_nothing_and_an_identifier_below_does() -> None:
    """Documents without names below the root are read by a shorter way."""
    named = {"type": "integer", "minimum": 3}
    plain = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://a.example/root"}
    properties = {"id": {"$ref": "#/$defs/n"}, "a~/b": {"$ref": "https://a.example/root#/$defs/n"}}
    check_schema({**plain, "properties": properties, "$defs": {"n": named}}, [{"id": 3, "a~/b": 4}], [{"id": 2}])
    below = {"properties": {"x": {"$ref": "https://a.example/n"}}, "$defs": {"n": {"$id": "n", **named}}}
    check_schema({**plain, **below}, [{"x": 3}], [{"x": 2}])


def test_an_identifier_in_an_unknown_keyword_names_only_what_nothing_else_names() -> None:
    unknown = {"$id": "https://x.test/a", "type": "null"}
    real = {"$id": "https://x.test/a", "type": "string"}
    for order in (("first", "real"), ("real", "first")):
        definitions = {"first": {"array_of_schemas": [unknown]}, "real": real}
        schema = {"$ref": "https://x.test/a", "$defs": {name: definitions[name] for name in order}}
        check_schema(schema, ["a"], [None, 1])
    alone = {"$ref": "https://x.test/a", "components": {"schemas": {"a": unknown}}}
    check_schema(alone, [None], ["a"])


def test_what_is_said_of_a_schema_and_denied_of_its_copy_is_a_contradiction() -> None:
    """A check would tell it of arrays and nested objects only when they end, and leave texts without a way on."""
    pairs = {"type": "array", "items": {"type": "object"}, "uniqueItems": True}
    properties = {"a": {"$ref": "#/$defs/pairs"}, "b": pairs, "c": {"const": [1]}, "d": {"const": [True]}}
    document = SchemaDocument({"$defs": {"pairs": pairs}, "properties": properties})
    semantics = Semantics(GrammarOptions().limits)

    def both(said: str, denied: str) -> ValueSet:
        terms = (
            SchemaRef(document.root.child("properties", said)),
            SchemaRef(document.root.child("properties", denied), False),
        )
        return semantics.of_conjunction(terms)

    assert both("a", "b") == both("b", "a") == both("a", "a") == both("c", "c") == NOTHING
    assert both("c", "d").arrays


def test_siblings_of_a_reference_count_from_2019_on() -> None:
    schema = {"$ref": "#/$defs/s", "maxLength": 1, "$defs": {"s": {"type": "string"}}}
    check_schema(schema, ["a"], ["ab", 1])
    check_schema({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, ["a", "ab"], [1])


def test_a_schema_without_any_value_is_refused_with_the_place() -> None:
    for schema, pointer in [
        (False, ""),
        (
            {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3, "maximum": 2}}, "required": ["a"]},
            "/properties/a",
        ),
        ({"type": "string", "enum": [1]}, ""),
        (
            {
                "$defs": {"n": {"type": "object", "properties": {"n": {"$ref": "#/$defs/n"}}, "required": ["n"]}},
                "$ref": "#/$defs/n",
            },
            "/$defs/n",
        ),
    ]:
        with pytest.raises(Unsatisfiable) as caught:
            compile_json_schema(schema, byte_vocabulary())
        assert pointer in caught.value.pointer


@pytest.mark.parametrize(
    ("schema", "error", "pointer"),
    [
        ({"properties": {"a": {"type": "int"}}}, InvalidGrammar, "/properties/a/type"),
        ({"items": {"pattern": "("}}, InvalidGrammar, "/items/pattern"),
        ({"minLength": -1}, InvalidGrammar, "/minLength"),
        ({"anyOf": []}, InvalidGrammar, "/anyOf"),
        ({"allOf": [{"$ref": "#/$defs/none"}]}, InvalidGrammar, "/allOf/0/$ref"),
        ({"$ref": "http://elsewhere/x"}, UnsupportedGrammar, "/$ref"),
        ({"$ref": "#"}, InvalidGrammar, ""),
        ({"properties": {"a~/b": 5}}, InvalidGrammar, "/properties"),
    ],
)
def test_what_is_wrong_is_said_with_a_pointer(schema: object, error: type[Exception], pointer: str) -> None:
    with pytest.raises(error) as caught:
        compile_json_schema(schema, byte_vocabulary())
    assert caught.value.pointer == pointer  # type: ignore[attr-defined]


def test_hundreds_of_settings_that_may_hold_all_others_are_planned_when_a_text_gets_there() -> None:
    """As in the configuration of update bots: asking whether one has a value once went through all others, one within
    the other, to the end of the stack."""
    count = 250
    settings = {f"s{i}": {"type": "object", "allOf": [{"$ref": "#"}], "minProperties": 0} for i in range(count)}
    never = {"type": "object", "required": ["x"], "properties": {"x": False}, "minProperties": 0}
    schema = {"type": "object", "properties": {**settings, "never": never, "leaf": {"type": "integer"}}}
    names = ["s1", "s3", "s2", "s249", "s0"] * 8
    inner: object = {"leaf": 1}
    for name in names:
        inner = {name: inner}
    compiled = compile_json_schema(schema, byte_vocabulary())
    assert accepts(compiled, json.dumps(inner))
    assert not accepts(compiled, json.dumps(inner).replace('"leaf": 1', '"leaf": "x"'))
    assert not accepts(compiled, json.dumps(inner).replace('"leaf": 1', '"never": {}'))


def test_too_deep_and_too_large_schemas_are_refused_in_time() -> None:
    deep: dict[str, object] = {}
    for _ in range(3_000):
        deep = {"items": deep}
    with pytest.raises(GrammarLimit):
        compile_json_schema(deep, byte_vocabulary())
    with pytest.raises(GrammarLimit):
        compile_json_schema({"pattern": "(a|b)*a(a|b){40}"}, byte_vocabulary())


def test_whitespace_is_bounded_or_absent() -> None:
    check_schema(
        {"items": {}}, ["[1, 2]", "[\n  1,\n  2\n]"], ["[1,  2]", "[ \n1]", "[\n\n1]", " [1]", "[1] "], raw=True
    )
    check_schema({"items": {}}, ["[1,2]"], ["[1, 2]", "[\n1]"], raw=True, whitespace="compact")
    check_schema({"items": {}}, ["[1,   2]"], ["[1,    2]", "[1,\n2]"], raw=True, whitespace=" {0,3}")
    with pytest.raises(InvalidGrammar):
        check_schema({}, whitespace="x*")


def test_unknown_options_are_refused_with_the_valid_ones() -> None:
    with pytest.raises(InvalidGrammar, match="property_order"):
        grammar.GrammarOptions.from_mapping({"order": "any"})


def test_any_json_object_and_nothing_else() -> None:
    compiled = grammar.compile_json_object(byte_vocabulary())
    assert accepts(compiled, '{"a": [1, {"b": null}], "c": "d"}')
    assert not accepts(compiled, "[1]")
    assert not accepts(compiled, '{"a": 1')


@pytest.mark.no_cover  # being followed line by line costs more here than what is measured
@pytest.mark.parametrize(
    "schema",
    [
        {"enum": [f"value {i}" for i in range(50_000)]},
        {"anyOf": [{"const": f"value {i}"} for i in range(3_000)]},
        {"oneOf": [{"const": i} for i in range(2_000)]},
        {"properties": {f"p{i}": {"type": "string"} for i in range(20_000)}},
        {"type": "string", "maxLength": 10**9},
        {"type": "array", "minItems": 10**9},
        {"oneOf": [{"type": "object", "properties": {"k": {"const": i}}} for i in range(300)]},
    ],
    ids=["enum", "anyOf", "oneOf", "properties", "maxLength", "minItems", "overlapping oneOf"],
)
def test_large_schemas_take_time_in_proportion(schema: dict[str, object]) -> None:
    """Each of these took minutes when it was done in pairs, or unrolled."""
    began = time.process_time()
    matcher = compile_json_schema(schema, byte_vocabulary()).matcher()
    matcher.bound(8.0)  # 300 kinds of objects that may all have any name are too much for a call without a bound
    allowed(matcher, byte_vocabulary())
    assert time.process_time() - began < 8


def test_a_constant_too_large_for_readers_is_spelled_by_its_digits() -> None:
    """`1e400` and `1000...0.0` are read as infinity."""
    check_schema({"enum": [10**400, 7]}, [str(10**400), "7", "7.0"], ["1e400", "1E+400", str(10**400) + ".0"], raw=True)
