"""One table of keywords: true to the drafts, and all that is to be written for a new scalar keyword beside its code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import sluicegate.grammar.schema
from sluicegate.grammar.schema import assertions
from sluicegate.grammar.schema.metaschemas import DIALECTS, meta_schemas
from sluicegate.plugins.json_schema import KEYWORDS, Keyword, named

ROOT = Path(__file__).resolve().parents[2]


def keywords_of(draft: int) -> set[str]:
    """Return the keywords that the schema of JSON Schema's own schemas describes."""
    whole = DIALECTS[draft].rstrip("#")
    parts = [schema for uri, schema in meta_schemas().items() if uri.startswith(whole.removesuffix("schema"))]
    return {name for schema in parts for name in schema.get("properties", {})}


@pytest.mark.parametrize("draft", DIALECTS)
def test_the_table_has_the_keywords_of_each_draft(draft: int) -> None:
    """Neither more nor less, but for `$ref`, which draft 4 describes in a document of its own."""
    listed = named(lambda row: row.since is not None and row.since <= draft <= row.until)
    assert listed - {"$ref"} == keywords_of(draft) - {"$ref"}


@pytest.mark.parametrize("row", [row for row in KEYWORDS.values() if row.compiled_in], ids=lambda row: row.name)
def test_a_keyword_is_enforced_where_the_table_says(row: Keyword) -> None:
    folder = Path(str(sluicegate.grammar.schema.__path__[0]))
    assert f'"{row.name}"' in (folder / f"{row.compiled_in}.py").read_text("utf-8")


def test_all_that_asserts_is_enforced_somewhere() -> None:
    assert named(lambda row: row.role in ("assertion", "applicator", "reference") and not row.compiled_in) == set()


@pytest.mark.parametrize(("kind", "compiled"), [("number", assertions.NUMBERS), ("string", assertions.STRINGS)])
def test_each_scalar_keyword_has_its_function(kind: str, compiled: dict[str, object]) -> None:
    assert compiled.keys() == named(lambda row: row.role == "assertion" and row.kind == kind)


NEW_KEYWORD = """
from sluicegate.plugins import json_schema

row = json_schema.Keyword("beginsWith", "assertion", "string", "string", "assertions", redactable=False)
json_schema.KEYWORDS["beginsWith"] = row

from sluicegate import grammar, safety
from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.schema import assertions
from sluicegate.grammar.schema.strings import Strings
from sluicegate.plugins.errors import InvalidGrammar

def begins_with(node, limits):
    return Strings(dfa=CharDfa.from_literal(node.value["beginsWith"]).concat(CharDfa.any_string()))

assertions.STRINGS["beginsWith"] = begins_with

vocabulary = grammar.Vocabulary.from_bytes([bytes([byte]) for byte in range(256)], eos_token_ids=[0])

def allows(schema, text):
    matcher = grammar.compile_json_schema(schema, vocabulary).matcher()
    try:
        for byte in text:
            matcher.accept(byte)
    except grammar.TokenRejected:
        return False
    return matcher.can_stop

schema = {"type": "string", "beginsWith": "ab"}
assert allows(schema, b'"abc"') and not allows(schema, b'"bbc"')
assert allows({"not": schema}, b'"bbc"') and not allows({"not": schema}, b'"abc"')
try:
    grammar.compile_json_schema({"beginsWith": 1}, vocabulary)
except InvalidGrammar as error:
    assert "beginsWith must be a string" in str(error) and error.pointer == "/beginsWith"
else:
    raise AssertionError("a keyword of the wrong form")
from sluicegate.safety.window import redactable
assert "beginsWith" in redactable._FIXED
"""


def test_a_new_scalar_keyword_is_a_row_and_a_function() -> None:
    """With its test that is three files: its form is checked, it is enforced, negated too, and kept from redaction."""
    done = subprocess.run([sys.executable, "-c", NEW_KEYWORD], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
