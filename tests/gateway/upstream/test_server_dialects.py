"""What each server is asked for a constraint, in its own words; its answers are judged whatever it makes of it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from sluicegate.gateway.upstream.dialects import SERVER_DIALECTS, written
from sluicegate.grammar import compile_lark
from sluicegate.grammar.lark import gbnf
from sluicegate.plugins import Constraint, UnsupportedGrammar
from tests.gateway.upstream.fleets import FleetServer, fleet, says
from tests.grammar.grammar_checks import accepts, byte_vocabulary

SCHEMA = {"type": "object"}
GBNF = 'root ::= "a" | "b"'
LARK = 'start: "a" | "b"'
ODD = ["a|b", "(x)", 'say "hi"', "back\\slash", "line\nbreak", "1.5+*?[]{}^$", "é"]
FORMAT = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA, "strict": True}}}
ANY = {"response_format": {"type": "json_object"}}
RECORDED: dict[str, dict[str, dict[str, Any] | None]] = {
    "openai": {"json_schema": FORMAT, "json_object": ANY, "regex": None, "lark": None},
    "vllm": {
        "json_schema": FORMAT,
        "json_object": ANY,
        "regex": {"structured_outputs": {"regex": "a+"}},
        "lark": {"structured_outputs": {"grammar": GBNF}},
    },
    "sglang": {"json_schema": FORMAT, "json_object": ANY, "regex": {"regex": "a+"}, "lark": {"ebnf": GBNF}},
    "tgi": {
        "json_schema": {"response_format": {"type": "json", "value": SCHEMA}},
        "json_object": {"response_format": {"type": "json", "value": {"type": "object"}}},
        "regex": {"response_format": {"type": "regex", "value": "a+"}},
        "lark": None,
    },
    "tensorrt-llm": {
        "json_schema": {"response_format": {"type": "json", "schema": SCHEMA}},
        "json_object": ANY,
        "regex": {"response_format": {"type": "regex", "regex": "a+"}},
        "lark": {"response_format": {"type": "ebnf", "ebnf": GBNF}},
    },
    "llama.cpp": {"json_schema": FORMAT, "json_object": ANY, "regex": None, "lark": {"grammar": GBNF}},
}
"""As each server's documentation has it; None: it cannot keep such a constraint, and is not asked."""
CONSTRAINTS = {
    "json_schema": Constraint("json_schema", SCHEMA, "x"),
    "json_object": Constraint("json_object"),
    "regex": Constraint("regex", "a+"),
    "lark": Constraint("lark", GBNF),
}


@pytest.mark.parametrize("dialect", SERVER_DIALECTS)
@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_a_constraint_is_sent_as_the_server_calls_it_or_refused(dialect: str, kind: str) -> None:
    expected = RECORDED[dialect][kind]
    if expected is None:
        with pytest.raises(UnsupportedGrammar, match="the server behind this model takes"):
            written(CONSTRAINTS[kind], dialect)
    else:
        assert written(CONSTRAINTS[kind], dialect) == expected


@pytest.mark.parametrize("dialect", ["sglang", "tensorrt-llm", "llama.cpp"])
def test_a_lark_grammar_is_not_sent_to_a_server_that_reads_gbnf(dialect: str) -> None:
    with pytest.raises(UnsupportedGrammar, match="takes GBNF"):
        written(Constraint("lark", LARK), dialect)


@pytest.mark.parametrize("dialect", ["sglang", "tgi", "tensorrt-llm"])
def test_choices_become_an_expression_that_matches_them_and_nothing_else(dialect: str) -> None:
    body = written(Constraint("choice", tuple(ODD)), dialect)
    [asked] = body.values()
    expression = asked if isinstance(asked, str) else asked.get("value") or asked["regex"]
    assert all(re.fullmatch(expression, choice) for choice in ODD)
    assert not any(re.fullmatch(expression, other) for other in ("a", "b", "x", "", "1x5+*?[]{}^$"))


def test_choices_become_a_grammar_that_reads_back_as_they_were() -> None:
    grammar = written(Constraint("choice", tuple(ODD)), "llama.cpp")["grammar"]
    assert gbnf.is_gbnf(grammar)
    compiled = compile_lark(grammar, byte_vocabulary())
    assert all(accepts(compiled, choice) for choice in ODD)
    assert not accepts(compiled, "a")


@pytest.mark.parametrize("dialect", [name for name in SERVER_DIALECTS if name != "openai"])
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_what_a_server_makes_of_it_is_judged_here(dialect: str, stream: bool) -> None:
    """One that takes the constraint and does not keep it never gets a wrong answer through."""
    server = FleetServer(says("abc"))
    with fleet(server, dialect=dialect, attempts=1, metrics="none") as app:
        reply = app.ask("hi", model="far", stream=stream, structured_outputs={"choice": ["ab", "cd"]})
        assert reply.error is not None
        assert reply.error["code"] == "upstream_failed"
        server.act = says("cd")
        assert app.ask("hi", model="far", stream=stream, structured_outputs={"choice": ["ab", "cd"]}).text == "cd"
