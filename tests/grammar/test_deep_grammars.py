"""Grammars that nest as deep as their length lets them: read, or refused with a typed error that says where.

Machine code runs over the end of its stack where Python raises a `RecursionError`. So what recurses over a stranger's
text counts how deep it is, and all else goes on without recursion, in both forms of the grammar.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sluicegate.grammar import compile_json_schema, compile_lark, compile_regex, compile_structural_tags
from sluicegate.plugins.errors import GrammarError, GrammarLimit, InvalidGrammar, UnsupportedGrammar
from tests.grammar.grammar_checks import accepts, byte_vocabulary

DEEP = 100_000
MOST = 199_000
"""Characters of a grammar, a little less than are read."""


def nested(opening: str, core: str, closing: str) -> str:
    count = min(DEEP, MOST // (len(opening) + len(closing)))
    return opening * count + core + closing * count


def chain(statement: Callable[[int], str], end: Callable[[int], str], backward: bool = False) -> str:
    """Return statements that each lead to the next, up to the end, in 120,000 characters."""
    rows: list[str] = []
    size = 0
    while size < 120_000:
        rows.append(statement(len(rows)))
        size += len(rows[-1])
    rows.append(end(len(rows)))
    return "\n".join(reversed(rows) if backward else rows)


def wrapped(wrap: Callable[[Any], Any], core: Any, depth: int = DEEP) -> Any:
    for _ in range(depth):
        core = wrap(core)
    return core


READ = {
    "GBNF: rules that name the next one": chain(lambda i: f"r{i} ::= r{i + 1}", lambda i: f'r{i} ::= "a"\nroot ::= r0'),
    "GBNF: rules that name the one before": chain(
        lambda i: f"r{i} ::= r{i + 1}", lambda i: f'root ::= r0\nr{i} ::= "a"', backward=True
    ),
    "GBNF: recursive rules that name the next one": "\n".join(
        [*(f"r{i} ::= r{i + 1}" for i in range(400)), 'r400 ::= "a" | "(" r0 ")"', "root ::= r0"]
    ),
    "GBNF: fewer repetitions of a repetition": 'root ::= "a"' + "?" * 200,
    "Lark: rules that name the next one": chain(lambda i: f"r{i}: r{i + 1}", lambda i: f'r{i}: "a"\nstart: r0'),
    "Lark: terminals that name the next one": chain(lambda i: f"R{i}: R{i + 1}", lambda i: f'R{i}: "a"\nstart: R0'),
    "Lark: terminals that name the one before": chain(
        lambda i: f"R{i}: R{i + 1}", lambda i: f'start: R0\nR{i}: "a"', backward=True
    ),
    "llguidance: terminals that are not what is not": 'start: A\nA: "a" & ' + "~" * DEEP + '"a"',
}


@pytest.mark.parametrize("name", READ)
def test_what_nests_without_a_limit_is_read(name: str) -> None:
    compiled = compile_lark(READ[name], byte_vocabulary())
    assert accepts(compiled, "a")
    assert not accepts(compiled, "b")


REFUSED: dict[str, tuple[str, type[GrammarError], str]] = {
    "GBNF: groups": ("root ::= " + nested("(", '"a"', ")"), GrammarLimit, "line 1, column 111: groups are nested"),
    "GBNF: groups with texts": ("root ::= " + nested('("a" ', '"a"', ")"), GrammarLimit, "line 1, column 511: groups"),
    "GBNF: repetitions of a repetition": (
        's ::= "b"\nroot ::= "a"' + "*" * DEEP,
        GrammarLimit,
        "line 2, column 1: groups and repetitions of repetitions nest more than 300 deep in rule 'root'",
    ),
    "GBNF: counts of counts": ('root ::= "a"' + "{1}" * 60_000, GrammarLimit, "line 1, column 1: groups and rep"),
    "GBNF: repetitions of recursion": ('root ::= ("a" root)' + "?" * DEEP, GrammarLimit, "line 1, column 1: groups"),
    "GBNF: lookaheads": ("root ::= (= " + nested("(", '"a"', ")") + ")", GrammarLimit, "groups are nested"),
    "GBNF: lists of a macro": ("root ::= TagDispatch(" + nested("(", '"a"', ")"), InvalidGrammar, "line 1, column 24"),
    "GBNF: an expression": (f'root ::= Regex("{nested("(", "a", ")")}")', GrammarLimit, "line 1, column 10: Regex"),
    "GBNF: options of options": (
        chain(lambda i: f"r{i}[lazy] ::= r{i + 1}", lambda i: f'r{i} ::= "a"\nroot ::= r0'),
        UnsupportedGrammar,
        "line 1, column 1: not supported: options of a rule that refers to",
    ),
    "Lark: brackets": ("start: " + nested("[", '"a"', "]"), GrammarLimit, "line 1: rule start makes"),
    "Lark: an expression": (f"start: /{nested('(', 'a', ')')}/", GrammarLimit, "line 1, column 8: terminal"),
    "Lark: a schema": (
        "start: %json " + nested('{"items":', "true", "}"),
        GrammarLimit,
        "line 1, column 14: what stands after %json nests too deeply",
    ),
    "Lark: grammars in grammars": (
        "start: " + nested("%lark { start: ", '"a"', "}"),
        GrammarLimit,
        "line 1, column 163: grammars are nested more than 10 deep",
    ),
    "llguidance: groups of terminals": (
        "start: A\nA: " + nested("~(", '"a"', ")"),
        GrammarLimit,
        "line 2, column 124: groups and the terminals that they refer to are nested more than 60 deep",
    ),
    "llguidance: terminals that name the next one": (
        chain(lambda i: f"R{i}: R{i + 1} & /a+/", lambda i: f'R{i}: "a"\nstart: R0'),
        GrammarLimit,
        "line 61, column 6: groups and the terminals that they refer to are nested more than 60 deep",
    ),
    "llguidance: conditions": (
        'start: r::1\nr::_: "a" %if ' + nested("not(", "true", ")"),
        InvalidGrammar,
        "line 2, column 415: conditions are nested more than 100 deep",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_nests_too_deep_is_refused_with_its_place(name: str) -> None:
    text, kind, said = REFUSED[name]
    with pytest.raises(kind) as refused:
        compile_lark(text, byte_vocabulary())
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "pattern",
    [nested("(", "a", ")"), nested("(?:", "a", ")*"), nested("(a|", "a", ")"), nested("(?=", "a", ")"), "(" * DEEP],
    ids=["groups", "repetitions", "alternatives", "lookaheads", "never closed"],
)
def test_a_deep_expression_is_refused_with_its_place(pattern: str) -> None:
    with pytest.raises(GrammarLimit, match=r"groups are nested more than 100 deep \(position \d+\)"):
        compile_regex(pattern, byte_vocabulary())


TEXT = {"type": "const_string", "value": "a"}
TAGS: dict[str, Callable[[], Any]] = {
    "sequence": lambda: wrapped(lambda inner: {"type": "sequence", "elements": [inner]}, TEXT),
    "or": lambda: wrapped(lambda inner: {"type": "or", "elements": [inner, TEXT]}, TEXT),
    "tag": lambda: wrapped(lambda inner: {"type": "tag", "begin": "<a>", "content": inner, "end": "</a>"}, TEXT),
    "plus": lambda: wrapped(lambda inner: {"type": "plus", "content": inner}, TEXT),
    "a grammar": lambda: {"type": "grammar", "grammar": "root ::= " + nested("(", '"a"', ")")},
}


@pytest.mark.parametrize("name", TAGS)
def test_a_deep_structural_tag_is_refused_with_its_place(name: str) -> None:
    with pytest.raises(GrammarLimit) as refused:
        compile_structural_tags({"format": TAGS[name]()}, byte_vocabulary())
    assert (refused.value.pointer or "").startswith("/format")


@pytest.mark.parametrize(
    "wrap",
    [
        lambda inner: {"type": "array", "items": inner},
        lambda inner: {"properties": {"a": inner}, "required": ["a"]},
        lambda inner: {"anyOf": [inner, {"type": "null"}]},
        lambda inner: {"not": inner},
    ],
    ids=["items", "properties", "anyOf", "not"],
)
def test_a_deep_schema_is_refused(wrap: Callable[[Any], Any]) -> None:
    named = {f"a{i}": wrap({"$ref": f"#/$defs/a{i + 1}"}) for i in range(3_000)}
    schema = {"$ref": "#/$defs/a0", "$defs": {**named, "a3000": {"type": "integer"}}}
    with pytest.raises(GrammarLimit, match="deep"):
        compile_json_schema(schema, byte_vocabulary())


def itself() -> dict[str, Any]:
    schema: dict[str, Any] = {"$anchor": "a"}
    schema["items"] = schema
    return schema


VALUES: dict[str, Callable[[], Any]] = {
    "named": lambda: wrapped(lambda inner: {"$anchor": "b", "items": inner, "not": {"x": {}}}, {}, 3_000),
    "tables": lambda: wrapped(lambda inner: {"properties": {"a": inner}}, {"$anchor": "a"}),
    "unknown": lambda: {"$defs": {"a": {"$anchor": "a"}}, "x": wrapped(lambda inner: [inner, [], []], 1)},
    "itself": itself,
}


@pytest.mark.parametrize("name", VALUES)
def test_schemas_of_python_are_refused_by_their_depth_before_their_parts_are_listed(name: str) -> None:
    """100,000 levels took all memory: each had a pointer, as long as it lies deep."""
    with pytest.raises(GrammarLimit, match="nest deeper than 2000 levels; make it flatter") as refused:
        compile_json_schema(VALUES[name](), byte_vocabulary())
    assert 0 < len(refused.value.pointer or "") < 500


def test_a_document_beside_the_schema_may_nest_no_deeper() -> None:
    with pytest.raises(GrammarLimit, match="nest deeper than 2000 levels"):
        compile_json_schema({"$ref": "http://x/y"}, byte_vocabulary(), documents={"http://x/y": VALUES["named"]()})


@pytest.mark.parametrize("grammar", ['root ::= "[" root? "]"', 'start: "[" start* "]"'], ids=["GBNF", "Lark"])
def test_a_text_may_nest_as_deep_as_it_likes(grammar: str) -> None:
    depth = 10_000
    matcher = compile_lark(grammar, byte_vocabulary()).matcher()
    for byte in b"[" * depth + b"]" * depth:
        assert not matcher.can_stop
        matcher.accept(byte)
    assert matcher.can_stop
