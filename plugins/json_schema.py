"""The keywords of JSON Schema, drafts 4 to 2020-12, in one table.

Grammars, redaction and the texts of a request each need some of these keywords: they derive their sets from the table
with `named`, so that a new keyword is one row here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

Role = Literal["assertion", "applicator", "reference", "identifier", "annotation"]
Form = Literal[
    "any", "text", "string", "pattern", "flag", "count", "number", "limit", "positive", "type", "value", "values",
    "names", "lists of names", "schema", "schemas", "items", "table", "definitions", "dependencies",
]  # fmt: skip
"""Form of a keyword's value. `value`, `values`: data, in which `$id` and `$ref` have no meaning. `table`: schemas by
name; `definitions`: the same, used only through references. `items`: a schema or a list of schemas. `limit`: a number,
or a flag in draft 4."""
Kind = Literal["any", "number", "string", "array", "object"]
Room = Literal["unknown", "alone", "always"]


@dataclass(frozen=True, slots=True)
class Keyword:
    """One row.

    `kind`: the type of value that it looks at; it says nothing of others. `since`, `until`: drafts; `since` None: of
    OpenAPI. `compiled_in`: the module of `grammar/schema` that enforces it. `narrows`: where the schema inside allows
    less, the whole allows no more. `room`: whether a schema of one type has values: `always`, whatever the keyword and
    those beside it say, or where it is `alone` beside keywords that always leave some. `redactable`: strings below may
    be replaced, checked by form and length at most.
    """

    name: str
    role: Role
    form: Form = "any"
    kind: Kind = "any"
    compiled_in: str = ""
    since: int | None = 4
    until: int = 2020
    narrows: bool = False
    room: Room = "unknown"
    redactable: bool = True


_ROWS = (
    Keyword("$schema", "identifier", "text", compiled_in="document"),
    Keyword("id", "identifier", "text", compiled_in="document", until=4),
    Keyword("$id", "identifier", "text", compiled_in="document", since=6),
    Keyword("$anchor", "identifier", "text", compiled_in="document", since=2019),
    Keyword("$dynamicAnchor", "identifier", "text", compiled_in="document", since=2020),
    Keyword("$recursiveAnchor", "identifier", "flag", compiled_in="document", since=2019),
    Keyword("$vocabulary", "identifier", since=2019),
    Keyword("$defs", "identifier", "definitions", since=2019),
    Keyword("definitions", "identifier", "definitions"),
    Keyword("$ref", "reference", "text", compiled_in="document"),
    Keyword("$dynamicRef", "reference", "text", compiled_in="document", since=2020, redactable=False),
    Keyword("$recursiveRef", "reference", "text", compiled_in="document", since=2019, redactable=False),
    # Annotations
    Keyword("title", "annotation", "text"),
    Keyword("description", "annotation", "text"),
    Keyword("$comment", "annotation", "text", since=7),
    Keyword("default", "annotation", "value"),
    Keyword("examples", "annotation", "values", since=6),
    Keyword("example", "annotation", "value", since=None),
    Keyword("nullable", "annotation", since=None),
    Keyword("deprecated", "annotation", since=2019),
    Keyword("readOnly", "annotation", since=7),
    Keyword("writeOnly", "annotation", since=7),
    Keyword("contentEncoding", "annotation", "text", kind="string", since=7, redactable=False),
    Keyword("contentMediaType", "annotation", "text", kind="string", since=7, redactable=False),
    Keyword("contentSchema", "annotation", "schema", kind="string", since=2019),
    # Values of any type
    Keyword("type", "assertion", "type", compiled_in="semantics", room="always"),
    Keyword("enum", "assertion", "values", compiled_in="semantics", redactable=False),
    Keyword("const", "assertion", "value", compiled_in="semantics", since=6, redactable=False),
    Keyword("allOf", "applicator", "schemas", compiled_in="semantics", narrows=True),
    Keyword("anyOf", "applicator", "schemas", compiled_in="semantics", narrows=True),
    Keyword("oneOf", "applicator", "schemas", compiled_in="semantics"),
    Keyword("not", "applicator", "schema", compiled_in="semantics", redactable=False),
    Keyword("if", "applicator", "schema", compiled_in="semantics", since=7, redactable=False),
    Keyword("then", "applicator", "schema", compiled_in="semantics", since=7, narrows=True),
    Keyword("else", "applicator", "schema", compiled_in="semantics", since=7, narrows=True),
    # Numbers
    Keyword("minimum", "assertion", "number", "number", "assertions", room="alone"),
    Keyword("maximum", "assertion", "number", "number", "assertions"),
    Keyword("exclusiveMinimum", "assertion", "limit", "number", "assertions"),
    Keyword("exclusiveMaximum", "assertion", "limit", "number", "assertions"),
    Keyword("multipleOf", "assertion", "positive", "number", "assertions"),
    Keyword("divisibleBy", "assertion", "positive", "number", "assertions", since=3, until=3),
    # Strings
    Keyword("minLength", "assertion", "count", "string", "assertions"),
    Keyword("maxLength", "assertion", "count", "string", "assertions"),
    Keyword("pattern", "assertion", "pattern", "string", "assertions", redactable=False),
    Keyword("format", "assertion", "string", "string", "assertions", room="alone"),
    # Arrays
    Keyword("prefixItems", "applicator", "schemas", "array", "assertions", since=2020, narrows=True),
    Keyword("items", "applicator", "items", "array", "assertions", narrows=True, room="always"),
    Keyword("additionalItems", "applicator", "schema", "array", "assertions", until=2019, narrows=True),
    Keyword("contains", "applicator", "schema", "array", "assertions", since=6),
    Keyword("minContains", "assertion", "count", "array", "assertions", since=2019),
    Keyword("maxContains", "assertion", "count", "array", "assertions", since=2019),
    Keyword("minItems", "assertion", "count", "array", "assertions"),
    Keyword("maxItems", "assertion", "count", "array", "assertions", room="alone"),
    Keyword("uniqueItems", "assertion", "flag", "array", "assertions"),
    Keyword("unevaluatedItems", "applicator", "schema", "array", "unevaluated", since=2019, narrows=True),
    # Objects
    Keyword("properties", "applicator", "table", "object", "assertions", narrows=True, room="always"),
    Keyword("patternProperties", "applicator", "table", "object", "assertions", narrows=True),
    Keyword("additionalProperties", "applicator", "schema", "object", "assertions", narrows=True, room="always"),
    Keyword("propertyNames", "applicator", "schema", "object", "semantics", since=6, narrows=True),
    Keyword("required", "assertion", "names", "object", "assertions"),
    Keyword("minProperties", "assertion", "count", "object", "assertions"),
    Keyword("maxProperties", "assertion", "count", "object", "assertions", room="alone"),
    Keyword("dependencies", "applicator", "dependencies", "object", "semantics", narrows=True),
    Keyword("dependentRequired", "assertion", "lists of names", "object", "semantics", since=2019),
    Keyword("dependentSchemas", "applicator", "table", "object", "semantics", since=2019, narrows=True),
    Keyword("unevaluatedProperties", "applicator", "schema", "object", "unevaluated", since=2019, narrows=True),
)
KEYWORDS: Mapping[str, Keyword] = {row.name: row for row in _ROWS}


def named(test: Callable[[Keyword], bool]) -> frozenset[str]:
    """Return the names of the keywords that pass `test`."""
    return frozenset(row.name for row in KEYWORDS.values() if test(row))
