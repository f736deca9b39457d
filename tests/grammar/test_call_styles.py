"""Repeated and dispatched formats, and the styles in which models write calls, each as a tag and what follows it."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.gateway.answer.validation import Validator
from sluicegate.grammar import GrammarError, InvalidGrammar, Unsatisfiable, UnsupportedGrammar, compile_structural_tags
from sluicegate.plugins import Answer
from sluicegate.plugins.parameter_styles import PARAMETER_STYLES
from tests.gateway.test_tagged import _asked
from tests.grammar.grammar_checks import accepts, byte_vocabulary, check_masks, reads

WORD = {"type": "const_string", "value": "ab"}
NUMBER = {"type": "json_schema", "json_schema": {"type": "integer"}}
PAIR = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}
FORMATS: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "plus": ({"type": "plus", "content": WORD}, ["ab", "abab"], ["", "aba"]),
    "star": ({"type": "star", "content": WORD}, ["", "ab", "abab"], ["aba"]),
    "repeat": ({"type": "repeat", "min": 2, "max": 3, "content": WORD}, ["abab", "ababab"], ["ab", "abababab"]),
    "repeated tags": (
        {
            "type": "repeat",
            "min": 1,
            "max": -1,
            "content": {"type": "tag", "begin": "<", "content": NUMBER, "end": ">"},
        },
        ["<1>", "<1><22>"],
        ["", "<1", "<a>"],
    ),
    "a repetition in front of what begins alike": (
        {
            "type": "sequence",
            "elements": [
                {
                    "type": "star",
                    "content": {"type": "sequence", "elements": [NUMBER, {"type": "const_string", "value": ";"}]},
                },
                {"type": "const_string", "value": "1x"},
            ],
        },
        ["1x", "1;1x", "11;2;1x"],
        ["1;", "1", "11x"],
    ),
    "text up to a repetition": (
        {"type": "sequence", "elements": [{"type": "any_text"}, {"type": "plus", "content": WORD}]},
        ["xx ab", "abab"],
        ["xx", "xaba"],
    ),
    "dispatch": (
        {"type": "dispatch", "rules": [["<f>", NUMBER], ["<g>", {"type": "const_string", "value": "!"}]]},
        ["hi", "x <f>12 and <g>! y", "", "a<f>1<f>2"],
        ["<f>x", "<g>"],
    ),
    "dispatch once": (
        {"type": "dispatch", "loop": False, "rules": [["<f>", NUMBER]]},
        ["hi", "x <f>12"],
        ["<f>12 x", "<f>1<f>2"],
    ),
    "dispatch up to an end": (
        {
            "type": "tag",
            "begin": "[",
            "content": {
                "type": "dispatch",
                "excludes": ["]"],
                "rules": [["<f>", {"type": "const_string", "value": "!"}]],
            },
            "end": "]",
        },
        ["[x]", "[x <f>! y]"],
        ["[<f>]", "x", "[x"],
    ),
    "any order": (
        {"type": "json_schema", "json_schema": PAIR, "any_order": True},
        ['{"a":1,"b":"x"}', '{"b":"x","a":1}'],
        ['{"a":1}', '{"a":1,"a":2,"b":"x"}'],
    ),
    "at most so many characters": (
        {"type": "tag", "begin": "<", "content": {"type": "any_text", "max_chars": 2}, "end": ["/", ">"]},
        ["<>", "<é>", "<ab>", "<ab/"],
        ["<abc>", "<abc/", "<ab"],
    ),
    "excluded texts that hold one another": (
        {"type": "tag", "begin": "<", "content": {"type": "any_text", "excludes": ["b", "abc", "x>y"]}, "end": ">"},
        ["<ac>", "<x>"],
        ["<abc>", "<b>", "<x>y>"],
    ),
    "excluded texts that the end holds": (
        {
            "type": "tag",
            "begin": "[",
            "content": {"type": "any_text", "excludes": ["<c>", "x<"], "max_chars": 9},
            "end": ["<c>end<s>", "!<c>!"],
        },
        ["[ab<c>end<s>", "[a!<c>!", "[123456789<c>end<s>"],
        ["[a<c>b<c>end<s>", "[x<y<c>end<s>", "[a<c>", "[1234567890<c>end<s>", "[a<c>end<s><c>end<s>"],
    ),
    "what may be empty, once or more": (
        {"type": "plus", "content": {"type": "optional", "content": WORD}},
        ["", "ab", "abab"],
        ["aba"],
    ),
    "what may be empty, many times": (
        {
            "type": "repeat",
            "min": 64,
            "max": 65,
            "content": {
                "type": "sequence",
                "elements": [{"type": "optional", "content": WORD}, {"type": "star", "content": NUMBER}],
            },
        },
        ["", "ab", "abab1", "ab" * 65, "12ab3"],
        ["aba", "ab" * 66],
    ),
    "nothing, any number of times": (
        {"type": "sequence", "elements": [{"type": "star", "content": {"type": "const_string", "value": ""}}, WORD]},
        ["ab"],
        ["", "abab"],
    ),
    "the older name of a style": (
        {"type": "qwen_xml_parameter", "json_schema": PAIR},
        ["<parameter=a>1</parameter><parameter=b>x</parameter>"],
        ["<parameter=a>1</parameter>", '{"a":1,"b":"x"}'],
    ),
    "null for what is left out": (
        {
            "type": "tag",
            "begin": "<",
            "content": {"type": "any_text", "excludes": None, "max_tokens": None, "max_chars": None},
            "end": ">",
        },
        ["<abc>"],
        ["<abc"],
    ),
    "texts kept out of strings and names": (
        {
            "type": "json_schema",
            "json_schema": {
                "properties": {"a": {"$ref": "#/$defs/b"}, "c": True, "d|": True},
                "unevaluatedProperties": False,
                "$defs": {"b": {"type": ["string", "object"]}},
            },
            "excludes": ["d|", "<x>"],
        },
        ['{"a":"<x"}', '{"a":{"d":["|"]},"c":["d","<X>"]}', '["d\u007d"]'],
        ['{"a":"-<x>"}', '{"c":[{"d|":1}]}', '{"d|":1}', '{"e":1}', '{"c":[["d\\u007c"]]}', '"<x>"'],
    ),
    "few blanks": (
        {"type": "json_schema", "json_schema": PAIR, "max_whitespace_cnt": 2},
        ['{"a":1,"b":"x"}', '{ \n"a":  1,"b":"x"}'],
        ['{   "a":1,"b":"x"}'],
    ),
    "no blanks": (
        {"type": "json_schema", "json_schema": PAIR, "max_whitespace_cnt": 0},
        ['{"a":1,"b":"x"}'],
        ['{"a": 1,"b":"x"}'],
    ),
}
CALL = {
    "type": "object",
    "$defs": {"unit": {"enum": ["c<elsius", "kelvin"]}},
    "properties": {
        "city": {"type": "string", "minLength": 2},
        "days": {"type": ["integer", "null"]},
        "unit": {"$ref": "#/$defs/unit"},
        "more": {"type": "object"},
        "any": {"type": ["string", "number"]},
    },
    "required": ["city", "days"],
}


def call(begin: str, style: str, end: str) -> dict[str, Any]:
    """Free text in which calls of one tool stand."""
    content = {"type": "json_schema", "json_schema": CALL, "style": style}
    return {"type": "triggered_tags", "triggers": [begin], "tags": [{"begin": begin, "content": content, "end": end}]}


def in_json(begin: str, end: str) -> dict[str, Any]:
    return call(begin, "json", end)


DSML = "\uff5cDSML\uff5c"
STYLES: dict[str, tuple[dict[str, Any], str, list[tuple[str, str]]]] = {
    "Qwen, and others after Hermes": (
        in_json('<tool_call>\n{"name": "weather", "arguments": ', "}\n</tool_call>"),
        'One moment.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo", "days": 3}}\n</tool_call>',
        [('"Oslo"', "3"), ("3", "x")],
    ),
    "Qwen coder": (
        call("<tool_call>\n<function=weather>\n", "qwen_xml", "</function>\n</tool_call>"),
        "I look.\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n"
        "<parameter=days>\n3\n</parameter>\n"
        '<parameter=unit>\nc<elsius\n</parameter>\n<parameter=more>\n{"a": 1}\n</parameter>\n</function>\n</tool_call>',
        [("\nOslo\n", "O"), ("\n3\n", "x"), ("c<elsius", "rankine"), ('{"a": 1}', "[1]"), ("=days", "=city")],
    ),
    "MiniMax": (
        call('<minimax:tool_call>\n<invoke name="weather">\n', "minimax_xml", "</invoke>\n</minimax:tool_call>"),
        '<minimax:tool_call>\n<invoke name="weather">\n<parameter name="city">Oslo</parameter>\n'
        '<parameter name="days">null</parameter>\n</invoke>\n</minimax:tool_call>',
        [("Oslo", "O"), ("null", "nil"), ('"days"', "days")],
    ),
    "DeepSeek": (
        call(
            f'<{DSML}function_calls>\n<{DSML}invoke name="weather">\n',
            "deepseek_xml",
            f"</{DSML}invoke>\n</{DSML}function_calls>",
        ),
        f'<{DSML}function_calls>\n<{DSML}invoke name="weather">\n'
        f'<{DSML}parameter name="city" string="true">Oslo</{DSML}parameter>\n'
        f'<{DSML}parameter name="days" string="false">3</{DSML}parameter>\n</{DSML}invoke>\n</{DSML}function_calls>',
        [('string="true"', 'string="false"'), (">3<", ">three<")],
    ),
    "GLM": (
        call("<tool_call>weather\n", "glm_xml", "</tool_call>"),
        "<tool_call>weather\n<arg_key>city</arg_key>\n<arg_value>Oslo</arg_value>\n"
        "<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        [("<arg_key>days", "<arg_key>nights"), ("Oslo", "")],
    ),
    "GLM in one line": (
        call("<tool_call>weather", "glm_xml", "</tool_call>"),
        "<tool_call>weather<arg_key>city</arg_key><arg_value>Oslo</arg_value>"
        "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>",
        [("<arg_key>days", "<arg_key>nights"), ("Oslo", "")],
    ),
    "DeepSeek 4.1": (
        call(f'<{DSML} invoke name="weather">\n', "deepseek_v4_1_xml", f"</{DSML} invoke>"),
        f'<{DSML} invoke name="weather">\n<{DSML} parameter name="city" string="true">Oslo</{DSML} parameter>\n'
        f'<{DSML} parameter name="days" string="false">3</{DSML} parameter>\n</{DSML} invoke>',
        [('string="true"', 'string="false"'), (f"<{DSML} parameter", f"<{DSML}parameter")],
    ),
    "Cohere": (
        call('<cofl:tool_call id="0" name="weather">', "cohere_xml", "</cofl:tool_call>"),
        '<cofl:tool_call id="0" name="weather"><cofl:value name="city" type="raw">Oslo</cofl:value>'
        '<cofl:value name="days" type="json">3</cofl:value></cofl:tool_call>',
        [('type="raw"', 'type="json"'), (">3<", ">x<")],
    ),
    "Kimi K2": (
        in_json("<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>", "<|tool_call_end|>"),
        "<|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>"
        '{"city": "Oslo", "days": 3}<|tool_call_end|>',
        [('"city"', '"town"')],
    ),
    "Kimi K3": (
        call("<|open|>call weather<|sep|>", "kimi_k3_xml", "<|close|>call<|sep|>"),
        '<|open|>call weather<|sep|><|open|>argument key="city" type="string"<|sep|>Oslo<|close|>argument<|sep|>'
        '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|><|close|>call<|sep|>',
        [('type="number"', 'type="string"'), ("Oslo", "O")],
    ),
    "Harmony (gpt-oss)": (
        in_json("<|channel|>commentary to=functions.weather <|constrain|>json<|message|>", "<|call|>"),
        '<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city": "Oslo", "days": null}<|call|>',
        [("null", '"x"')],
    ),
}


def complaint(value: dict[str, Any], text: str) -> str | None:
    """Return what the judge, who shares no code with the masks, has against `text`."""
    return Validator().complaint(_asked({"format": value}), Answer(0, text, "stop"))


@pytest.mark.parametrize("name", FORMATS)
def test_the_texts_are_those_of_the_format_and_the_judge_agrees(name: str) -> None:
    value, valid, invalid = FORMATS[name]
    compiled = compile_structural_tags({"format": value}, byte_vocabulary())
    for expected, texts in ((True, valid), (False, invalid)):
        for text in texts:
            for seed in (0, 1):
                assert accepts(compiled, text, seed) is expected, text
            if name not in ("few blanks", "no blanks"):  # blanks are the masks' business alone
                assert (complaint(value, text) is None) is expected, text
    for seed in range(2):
        check_masks(compiled, seed, steps=8)


@pytest.mark.parametrize("name", STYLES)
def test_a_call_in_the_style_of_a_model_is_written_and_judged(name: str) -> None:
    value, text, spoilt = STYLES[name]
    compiled = compile_structural_tags({"format": value}, byte_vocabulary())
    assert accepts(compiled, text, 0)
    assert accepts(compiled, f"{text} and {text}", 1)
    assert complaint(value, f"{text} and {text}") is None
    for before, after in spoilt:
        wrong = text.replace(before, after)
        assert wrong != text
        assert not accepts(compiled, wrong, 1), wrong
        assert complaint(value, wrong) is not None, wrong
    check_masks(compiled, 1, steps=6)


def test_optional_arguments_come_in_the_order_of_the_schema_and_of_each_kind() -> None:
    value = STYLES["Qwen coder"][0]
    compiled = compile_structural_tags({"format": value}, byte_vocabulary())

    def text(*arguments: tuple[str, str]) -> str:
        inner = "".join(f"<parameter={name}>{given}</parameter>" for name, given in arguments)
        return f"<tool_call>\n<function=weather>\n{inner}</function>\n</tool_call>"

    city, days = ("city", "Oslo"), ("days", "3")
    for given in ((city, days), (city, days, ("any", "5 x")), (city, days, ("any", "5")), (city, days, ("more", "{}"))):
        assert accepts(compiled, text(*given))
        assert complaint(value, text(*given)) is None
    for given in ((city,), (days, city), (city, days, days), (city, days, ("unit", "")), (city, days, ("other", "1"))):
        assert not accepts(compiled, text(*given))


@pytest.mark.parametrize(
    ("value", "error", "said"),
    [
        ({"type": "star", "content": {"type": "any_text"}}, UnsupportedGrammar, "what is repeated may be empty"),
        (
            {"type": "plus", "content": {"type": "grammar", "grammar": 'start: "a"*'}},
            UnsupportedGrammar,
            "/format/content",
        ),
        (
            {"type": "star", "content": {"type": "grammar", "grammar": 'start: "a"*'}},
            UnsupportedGrammar,
            "may be empty",
        ),
        ({"type": "repeat", "min": 1, "content": WORD}, InvalidGrammar, "a `min` and a `max`"),
        ({"type": "repeat", "min": 3, "max": 2, "content": WORD}, InvalidGrammar, "/format/max"),
        ({"type": "dispatch", "rules": [["<f", NUMBER], ["<fg", NUMBER]]}, UnsupportedGrammar, "/format/rules/0/0"),
        ({"type": "dispatch", "rules": [["<f"]]}, InvalidGrammar, "/format/rules/0"),
        ({"type": {}}, InvalidGrammar, "/format/type"),
        (
            {"type": "json_schema", "json_schema": {**PAIR, "required": [{}]}, "style": "glm_xml"},
            InvalidGrammar,
            "/format/json_schema/required",
        ),
        ({"type": "any_tokens"}, UnsupportedGrammar, "write it with 'any_text'"),
        ({"type": "any_text", "max_tokens": -5}, InvalidGrammar, "/format/max_tokens"),
        (
            {"type": "tag", "begin": "<", "content": {"type": "any_text", "max_tokens": 5}, "end": "aba"},
            UnsupportedGrammar,
            "does not begin as it ends",
        ),
        (
            {"type": "sequence", "elements": [{"type": "any_text", "max_tokens": 5}, NUMBER]},
            UnsupportedGrammar,
            "must be the last part",
        ),
        ({"type": "any_text", "max_chars": -1}, InvalidGrammar, "/format/max_chars"),
        (
            {"type": "json_schema", "json_schema": {"properties": {"a": {"type": "x"}}}, "excludes": ["x"]},
            InvalidGrammar,
            "(at '/format/json_schema/properties/a",
        ),
        (
            {"type": "json_schema", "json_schema": PAIR, "style": "toml"},
            InvalidGrammar,
            "the styles are json, qwen_xml",
        ),
        (
            {"type": "json_schema", "json_schema": {"type": "string"}, "style": "glm_xml"},
            UnsupportedGrammar,
            "writes the properties of an object, not 'string'",
        ),
        (
            {"type": "json_schema", "json_schema": False, "style": "glm_xml"},
            Unsatisfiable,
            "no arguments satisfy this schema",
        ),
        (
            {"type": "json_schema", "json_schema": {"$ref": "#/$defs/none"}, "style": "glm_xml"},
            InvalidGrammar,
            "/format/json_schema/$ref",
        ),
        (
            {
                "type": "json_schema",
                "json_schema": {"properties": {"a": {"type": "array", "items": {"$ref": "#"}}}},
                "style": "glm_xml",
            },
            UnsupportedGrammar,
            "/format/json_schema/properties/a/items/$ref",
        ),
        (
            {
                "type": "json_schema",
                "json_schema": {
                    "properties": {"a": {"$ref": "#/$defs/list"}},
                    "$defs": {"list": {"properties": {"a": {"$ref": "#/properties/a"}}}},
                },
                "style": "glm_xml",
            },
            UnsupportedGrammar,
            "put what it leads to under `$defs`",
        ),
        (
            {"type": "json_schema", "json_schema": {**PAIR, "required": ["c"]}, "style": "glm_xml"},
            UnsupportedGrammar,
            "'c' is required and not listed",
        ),
        (
            {"type": "json_schema", "json_schema": {**PAIR, "minProperties": 2}, "style": "glm_xml"},
            UnsupportedGrammar,
            "/format/json_schema/minProperties",
        ),
        (
            {"type": "json_schema", "json_schema": {**PAIR, "properties": {"a": False, "b": {}}}, "style": "glm_xml"},
            Unsatisfiable,
            "/format/json_schema/properties/a",
        ),
    ],
)
def test_what_is_not_read_is_said_with_its_place(value: dict[str, Any], error: type[GrammarError], said: str) -> None:
    with pytest.raises(error) as raised:
        compile_structural_tags({"format": value}, byte_vocabulary())
    assert said in str(raised.value)


@pytest.mark.parametrize("style", PARAMETER_STYLES)
def test_arguments_in_any_style_do_without_what_is_excluded(style: str) -> None:
    """Texts that begin other parts of a call, such as Kimi's `<|open|>`, are no part of an argument."""
    schema = {
        "type": "object",
        "properties": {
            "text": {"$ref": "#/$defs/text"},
            "list": {"type": "array", "items": {"$ref": "#/$defs/text"}},
            "a BAD name": {"type": "string"},
        },
        "$defs": {"text": {"type": "string"}},
    }
    value = {"type": "json_schema", "json_schema": schema, "style": style, "excludes": ["BAD", "<|sep|>"]}
    compiled = compile_structural_tags({"format": value}, byte_vocabulary())
    written = PARAMETER_STYLES[style]

    def argument(name: str, kind: str, inner: str) -> str:
        return f"{written.begins(name, kind)[0]}{inner}{written.closes}"

    listed = dict(written.other).get("array") or dict(written.other).get("")
    assert listed is not None
    for name, kind, good, bad in (
        ("text", written.text, "B AD<|sep", "a BAD"),
        ("text", written.text, "bad", "x<|sep|>y"),
        ("list", listed, '["B AD"]', '["a BAD"]'),
        ("list", listed, '["BA", "D"]', '["B\\u0041D"]'),
    ):
        if "<|sep|>" in bad and style == "kimi_k3_xml":  # ends the argument there
            continue
        for inner, expected in ((good, True), (bad, False)):
            text = argument(name, kind, inner)
            assert accepts(compiled, text) is expected, text
            assert (complaint(value, text) is None) is expected, text
    for text, expected in (("", True), (argument("a BAD name", written.text, "x"), False)):
        assert accepts(compiled, text) is expected
        assert (complaint(value, text) is None) is expected
    check_masks(compiled, 1, steps=6)


@pytest.mark.parametrize("style", ["qwen_xml", "kimi_k3_xml"])
def test_formats_of_arguments_are_compiled_with_the_tag_and_not_in_a_call(style: str) -> None:
    """An automaton of thousands of states up to a literal takes longer than a call may."""
    schema = {"type": "object", "properties": {"to": {"type": "string", "format": "email"}}, "required": ["to"]}
    value = {"type": "json_schema", "json_schema": schema, "style": style}
    compiled = compile_structural_tags({"format": value}, byte_vocabulary())
    written = PARAMETER_STYLES[style]
    begin = written.begins("to", written.text)[0]
    assert reads(compiled, f"{begin}ada@example.org{written.closes}")
    assert not reads(compiled, f"{begin}ada{written.closes}")


def written(style: str, name: str, value: str) -> str:
    """Return an argument that is a string, or one that is a number."""
    known = PARAMETER_STYLES[style]
    kind = dict(known.other).get("integer", dict(known.other).get("")) if value.isdecimal() else known.text
    return f"{known.begins(name, str(kind))[0]}{value}{known.closes}"


def judged(value: dict[str, Any], style: str, *arguments: tuple[str, str], between: str = "") -> bool:
    """Return whether masks let the arguments pass; whoever judges answers must say the same, but for their order."""
    text = between.join(written(style, *argument) for argument in arguments)
    compiled = compile_structural_tags({"format": value}, byte_vocabulary())
    read = accepts(compiled, text)
    assert not read or complaint(value, text) is None
    return read


@pytest.mark.parametrize("style", PARAMETER_STYLES)
def test_arguments_come_in_any_order_each_once(style: str) -> None:
    schema = {**PAIR, "properties": {**PAIR["properties"], "c": {"type": "string"}}}
    value = {"type": "json_schema", "json_schema": schema, "style": style, "any_order": True}
    for given in ("ab", "ba", "cab", "bca", "abc"):
        assert judged(value, style, *((name, "7") if name == "a" else (name, "x") for name in given), between="\n")
    for given in ("a", "b", "cb", "aab", "abb", ""):
        assert not judged(value, style, *((name, "7") if name == "a" else (name, "x") for name in given))
    check_masks(compile_structural_tags({"format": value}, byte_vocabulary()), 1, steps=8)
    assert not judged({**value, "any_order": False}, style, ("b", "x"), ("a", "7"))


def test_what_is_inside_an_argument_comes_in_any_order_too() -> None:
    schema = {"properties": {"o": {**PAIR, "properties": {"a": {"enum": [1]}, "b": {"enum": [2]}}}}}
    value = {"type": "json_schema", "json_schema": schema, "style": "qwen_xml"}
    for any_order in (True, False):
        compiled = compile_structural_tags({"format": {**value, "any_order": any_order}}, byte_vocabulary())
        assert accepts(compiled, '<parameter=o>{"b":2,"a":1}</parameter>') is any_order


def test_arguments_in_any_order_are_not_made_in_all_orders() -> None:
    """Sets of 60 names cannot all be visited."""
    schema = {"properties": {f"p{n}": {"type": "string"} for n in range(60)}, "required": ["p59"]}
    value = {"type": "json_schema", "json_schema": schema, "style": "minimax_xml", "any_order": True}
    names = [f"p{n}" for n in (59, 3, 12, 1, 58)]
    assert judged(value, "minimax_xml", *((name, "x") for name in names))
    assert not judged(value, "minimax_xml", *((name, "x") for name in [*names, "p3"]))


@pytest.mark.parametrize("any_order", [False, True])
@pytest.mark.parametrize("style", PARAMETER_STYLES)
def test_names_that_a_schema_does_not_list_come_where_it_allows_them(style: str, any_order: bool) -> None:
    schema = {**PAIR, "additionalProperties": {"$ref": "#/$defs/v"}, "$defs": {"v": {"type": ["integer", "string"]}}}
    value = {"type": "json_schema", "json_schema": schema, "style": style, "any_order": any_order}
    both = ("a", "7"), ("b", "x")
    assert judged(value, style, *both)
    assert judged(value, style, *both, ("more", "8"), ("ab", "text"), between=" ")
    assert judged(value, style, ("more", "x"), *both) is any_order
    for more in (("a", "8"), ("b", "y"), ('q"', "x"), ("", "x"), ("n" * 101, "x"), ("q<", "x"), ("q&", "x")):
        assert not judged(value, style, *both, more)
    assert judged(value, style, *both, ("n" * 100, "x"))
    check_masks(compile_structural_tags({"format": value}, byte_vocabulary()), 1, steps=8)


@pytest.mark.parametrize("schema", [True, {}, {"type": "object"}, {"type": ["object", "null"]}, {"required": ["k"]}])
def test_a_schema_that_lists_nothing_takes_arguments_of_any_name(schema: Any) -> None:
    value = {"type": "json_schema", "json_schema": schema, "style": "deepseek_xml"}
    assert judged(value, "deepseek_xml", ("k", "x"), ("l", "7"))
    assert judged(value, "deepseek_xml", ("l", "x")) is (schema != {"required": ["k"]})
    assert judged({**value, "json_schema": {"properties": {}}}, "deepseek_xml")
    assert not judged({**value, "json_schema": {"properties": {}}}, "deepseek_xml", ("k", "x"))


def test_names_that_a_schema_does_not_list_hold_none_of_the_excluded_texts() -> None:
    value = {"type": "json_schema", "json_schema": {}, "style": "qwen_xml", "excludes": ["BAD"]}
    assert judged(value, "qwen_xml", ("good", "x"))
    assert not judged(value, "qwen_xml", ("aBADc", "x"))
    assert not judged(value, "qwen_xml", ("good", "aBAD"))


def test_the_last_value_of_a_name_that_is_not_listed_counts() -> None:
    value = {"type": "json_schema", "json_schema": {}, "style": "qwen_xml"}
    assert judged(value, "qwen_xml", ("k", "x"), ("k", "7"))


def test_the_schema_of_arguments_may_be_one_of_its_definitions() -> None:
    schema = {"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"$ref": "#/$defs/pair"}, "pair": PAIR}}
    value = {"type": "json_schema", "json_schema": schema, "style": "cohere_xml"}
    assert judged(value, "cohere_xml", ("a", "7"), ("b", "x"))
    assert not judged(value, "cohere_xml", ("a", "7"))


def test_blanks_between_arguments_are_as_many_as_are_asked_for() -> None:
    value = {"type": "json_schema", "json_schema": PAIR, "style": "qwen_xml", "max_whitespace_cnt": 2}
    for any_order in (True, False):
        for blanks, expected in (("", True), (" \n", True), ("   ", False)):
            asked = {**value, "any_order": any_order}
            assert judged(asked, "qwen_xml", ("a", "7"), ("b", "x"), between=blanks) is expected


def test_patterns_that_may_be_empty_are_repeated() -> None:
    pieces = [
        {"type": "sequence", "elements": [{"type": "regex", "pattern": "x*"}, {"type": "regex", "pattern": "y?"}]},
        {"type": "const_string", "value": ""},
        {"type": "tags_with_separator", "separator": ",", "tags": [{"begin": "[", "content": WORD, "end": "]"}]},
        {"type": "tag", "begin": "", "content": {"type": "regex", "pattern": "(vw)*"}, "end": ""},
    ]
    loop = {"type": "star", "content": {"type": "or", "elements": pieces}}
    compiled = compile_structural_tags(
        {"format": {"type": "tag", "begin": "<", "content": loop, "end": ">"}}, byte_vocabulary()
    )
    for text in ("<>", "<xxyxy>", "<y[ab],[ab]x[ab]vw>"):
        assert accepts(compiled, text), text
    for text in ("<z>", "<[ab],>", "<v>"):
        assert not accepts(compiled, text), text
    check_masks(compiled, 1, steps=8)
