"""Compute the terms of an object's members, and which conjunctions surely have a value, from facts alone."""

from __future__ import annotations

from collections.abc import Sequence

from sluicegate.grammar.schema.containers import Conjunction, Fact, Object, SchemaRef, conjunction
from sluicegate.grammar.schema.document import ANNOTATIONS
from sluicegate.grammar.schema.strings import StringSet
from sluicegate.plugins.json_schema import KEYWORDS, named

_ROOMY = ANNOTATIONS | named(lambda keyword: keyword.room == "always")


def surely_has_value(terms: Conjunction) -> bool:
    """Return whether a value exists for sure: a single schema with a type and no keyword that every value of it could
    violate. False means unknown."""
    if not terms:
        return True
    if len(terms) > 1 or not isinstance(terms[0], SchemaRef) or not terms[0].positive:
        return False
    schema = terms[0].node.target().value
    if schema is True or schema == {}:
        return True
    if not isinstance(schema, dict) or "type" not in schema:
        return False
    kind = schema["type"]
    if not isinstance(kind, str):
        return False
    extra = schema.keys() - _ROOMY
    return not extra or (len(extra) == 1 and _leaves_room(extra.pop(), "number" if kind == "integer" else kind))


def _leaves_room(name: str, kind: str) -> bool:
    keyword = KEYWORDS.get(name)
    return keyword is not None and keyword.room == "alone" and keyword.kind == kind


def member_terms(spec: Object, name: str | None, matched: Sequence[str | StringSet]) -> Conjunction:
    """Return the terms of the value of `name`; None = an unlisted name. `matched`: the patterns it matches, and the
    sets of `spec.every` it is in."""
    facts: list[Fact] = []
    for part in spec.parts_about(name):
        found = name is not None and name in part.by_name
        if name is not None and found:
            facts.extend(part.by_name[name])
        for text, terms in part.patterns:
            if text in matched:
                facts.extend(terms)
                found = True
        if not found and part.rest is not None:
            facts.extend(part.rest)
    for language, terms in spec.every:
        if language in matched:
            facts.extend(terms)
    return conjunction(facts)
